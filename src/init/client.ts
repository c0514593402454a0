/**
 * The host's end of one sandbox's channel: hands frames to their streams, and turns a broken, silent or closed channel into
 * one typed end for that sandbox alone. Nothing it does ends the process or another sandbox.
 */
import { performance } from 'node:perf_hooks';
import type { Duplex } from 'node:stream';
import { asSallyportError, SallyportError } from '../errors/error.ts';
import { type Deferred, deferred, heard } from './deferred.ts';
import { encodeFile, encodeSpawn } from './fields.ts';
import { broken, encodeFrame, FrameDecoder, hostFrame } from './frame.ts';
import { maxU32, u64, wholeNumber } from './integers.ts';
import { backlogBytes, openBacklogBytes, openStreams } from './limits.ts';
import { decodeMessage, type Message, type StreamMessage } from './messages.ts';
import { HostStream } from './stream.ts';
import type { DiskState, FileOperation, Identity, InitClient, InitStream, SpawnSpec } from './types.ts';

export interface InitClientOptions {
  /** init ends itself after so long; 0 = no bound. */
  readonly lifetimeMs: number;
  readonly readyDeadlineMs: number;
}

type Loss = Awaited<InitClient['lost']>;
type StreamFacts = { readonly hasStdin: boolean; readonly hasStderr: boolean };

const protocolVersion = 1;

/** Greets init and takes over the channel: reads it, writes it, destroys it at the end. @throws SallyportError `invalid_request` */
export function openInitClient(channel: Duplex, options: InitClientOptions): InitClient {
  return new ChannelClient(channel, options);
}

class ChannelClient implements InitClient {
  readonly #channel: Duplex;
  readonly #decoder = new FrameDecoder();
  readonly #streams = new Map<number, HostStream>();
  readonly #pings = new Map<bigint, Deferred<void>>();
  readonly #diskListeners: ((state: DiskState) => void)[] = [];
  readonly #ready = deferred<void>();
  readonly #lost = deferred<Loss>();
  readonly #readyTimer: NodeJS.Timeout;
  #isReady = false;
  #loss: Loss | undefined;
  #drained: Deferred<void> | undefined;
  #nextId = 1;
  #nextToken = 1n;

  constructor(channel: Duplex, { lifetimeMs, readyDeadlineMs }: InitClientOptions) {
    const hello = helloPayload(wholeNumber(lifetimeMs, 'the lifetime in ms', 0, Number.MAX_SAFE_INTEGER));
    this.#channel = channel;
    this.#readyTimer = setTimeout(() => this.#giveUpWaiting(readyDeadlineMs), readyDeadlineMs);
    channel.on('data', (bytes: Buffer) => this.#receive(bytes));
    channel.on('drain', () => this.#settleDrained());
    channel.on('error', (error) => this.#lose('init_lost', `its channel failed: ${error.message}`));
    channel.on('end', () => this.#lose('init_lost', 'its channel ended'));
    channel.on('close', () => this.#lose('init_lost', 'its channel closed'));
    if (channel.destroyed) this.#lose('init_lost', 'its channel is closed');
    this.#send(encodeFrame(hostFrame.hello, 0, hello));
  }

  get ready(): Promise<void> {
    return this.#ready.promise;
  }
  get lost(): Promise<Loss> {
    return this.#lost.promise;
  }

  spawn(spec: SpawnSpec): InitStream {
    return this.#open(hostFrame.spawn, encodeSpawn(spec), { hasStdin: spec.stdin, hasStderr: true });
  }

  file(identity: Identity, operation: FileOperation): InitStream {
    const facts = { hasStdin: operation.op === 'write', hasStderr: false };
    return this.#open(hostFrame.file, encodeFile(identity, operation), facts);
  }

  ping(deadlineMs: number): Promise<number> {
    return heard(this.#ping(deadlineMs));
  }

  onDisk(listener: (state: DiskState) => void): void {
    this.#diskListeners.push(listener);
  }

  close(): void {
    this.#lose('init_lost', 'the host closed the channel');
  }

  async #ping(deadlineMs: number): Promise<number> {
    if (this.#loss !== undefined) throw errorOf(this.#loss);
    const token = this.#nextToken++;
    const beganMs = performance.now();
    const answer = deferred<void>();
    const late = (): void =>
      answer.reject(new SallyportError('deadline', `Cannot reach init: no answer to a ping in ${deadlineMs} ms`));
    const timer = setTimeout(late, deadlineMs);
    this.#pings.set(token, answer);
    try {
      this.#send(encodeFrame(hostFrame.ping, 0, u64(token)));
      await answer.promise;
      return performance.now() - beganMs;
    } finally {
      clearTimeout(timer);
      this.#pings.delete(token);
    }
  }

  #open(type: number, payload: Buffer, facts: StreamFacts): HostStream {
    if (this.#loss !== undefined) throw errorOf(this.#loss);
    if (this.#streams.size >= openStreams) throw tooManyStreams(`${openStreams} commands and file operations run`);
    const unread = this.#channel.writableLength;
    if (unread > openBacklogBytes) throw tooManyStreams(`init has not read the last ${unread} bytes`);
    const stream = new HostStream({ ...facts, id: this.#freeId(), send: (frame) => this.#send(frame) });
    this.#streams.set(stream.id, stream);
    this.#send(encodeFrame(type, stream.id, payload));
    return stream;
  }

  /** Increasing, so that a stray frame for a closed stream meets no new one. */
  #freeId(): number {
    while (this.#streams.has(this.#nextId)) this.#advanceId();
    const id = this.#nextId;
    this.#advanceId();
    return id;
  }

  #advanceId(): void {
    this.#nextId = this.#nextId >= maxU32 ? 1 : this.#nextId + 1;
  }

  /** @returns a promise only when the socket is full: bulk data waits for it, control frames need not */
  #send(frame: Buffer): Promise<void> | undefined {
    if (this.#loss !== undefined) return undefined;
    if (this.#channel.write(frame)) return undefined;
    const unread = this.#channel.writableLength;
    if (unread > backlogBytes) {
      this.#lose('init_lost', `it has not read the last ${unread} bytes`);
      return undefined;
    }
    this.#drained ??= deferred();
    return this.#drained.promise;
  }

  #settleDrained(): void {
    const drained = this.#drained;
    this.#drained = undefined;
    drained?.resolve();
  }

  #receive(bytes: Buffer): void {
    if (this.#loss !== undefined) return;
    try {
      this.#decoder.push(bytes, (frame) => {
        // the conversation may have ended with the frame before
        if (this.#loss === undefined) this.#dispatch(decodeMessage(frame));
      });
    } catch (thrown) {
      const { code, message } = asSallyportError(thrown);
      this.#lose(code === 'init_protocol' ? code : 'init_lost', message);
    }
  }

  #dispatch(message: Message): void {
    switch (message.kind) {
      case 'ready':
        if (this.#isReady) throw broken('a second READY');
        this.#isReady = true;
        clearTimeout(this.#readyTimer);
        this.#ready.resolve();
        return;
      case 'pong':
        this.#takePong(message.token);
        return;
      case 'disk':
        for (const listener of this.#diskListeners) listener(message.state);
        return;
      case 'fatal':
        // quoted: text from inside must not write on a terminal or forge a log line
        this.#lose('init_lost', `it gave up with code ${message.code}: ${JSON.stringify(message.text)}`);
        return;
      default:
        this.#toStream(message);
    }
  }

  /** The answer to a ping whose deadline has passed is late, not wrong. */
  #takePong(token: bigint): void {
    if (token < 1n || token >= this.#nextToken) throw broken(`PONG for the token ${token}, which was not sent`);
    this.#pings.get(token)?.resolve();
  }

  #toStream(message: StreamMessage): void {
    if (!this.#isReady) throw broken('a frame for a stream before READY');
    const stream = this.#streams.get(message.stream);
    if (stream === undefined) throw broken(`a frame for stream ${message.stream}, which is not open`);
    stream.take(message);
    if (message.kind === 'closed') this.#streams.delete(message.stream);
  }

  #giveUpWaiting(deadlineMs: number): void {
    const why = `init was not ready after ${deadlineMs} ms`;
    this.#ready.reject(new SallyportError('deadline', `Cannot start the sandbox: ${why}`));
    this.#lose('init_lost', why);
  }

  #lose(code: Loss['code'], detail: string): void {
    if (this.#loss !== undefined) return;
    this.#loss = { code, detail };
    const error = errorOf(this.#loss);
    clearTimeout(this.#readyTimer);
    this.#channel.destroy();
    this.#ready.reject(error);
    for (const ping of this.#pings.values()) ping.reject(error);
    for (const stream of this.#streams.values()) stream.fail(error);
    this.#streams.clear();
    this.#settleDrained();
    this.#lost.resolve(this.#loss);
  }
}

function helloPayload(lifetimeMs: number): Buffer {
  return Buffer.concat([Buffer.from([protocolVersion, 0, 0, 0]), u64(lifetimeMs)]);
}

function errorOf({ code, detail }: Loss): SallyportError {
  return new SallyportError(code, `The sandbox's init is gone: ${detail}`);
}

function tooManyStreams(why: string): SallyportError {
  return new SallyportError('too_many_streams', `Cannot start another command or file operation: ${why}`);
}
