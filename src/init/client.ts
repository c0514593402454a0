/**
 * The host's end of one sandbox's channel: hands frames to their streams, and turns a broken or closed channel into one
 * typed end for that sandbox alone.
 */
import type { Duplex } from 'node:stream';
import { SallyportError } from '../errors/error.ts';
import { encodeFile, encodeSpawn, u64 } from './fields.ts';
import { broken, encodeFrame, FrameDecoder, hostFrame } from './frame.ts';
import { openStreams } from './limits.ts';
import { decodeMessage, type Message } from './messages.ts';
import { HostStream } from './stream.ts';
import type { DiskState, FileOperation, Identity, InitClient, InitStream, SpawnSpec } from './types.ts';

export interface InitClientOptions {
  /** init ends itself after so long; 0 = no bound. */
  readonly lifetimeMs: number;
  readonly readyDeadlineMs: number;
}

type Loss = { readonly code: 'init_lost' | 'init_protocol'; readonly detail: string };

const protocolVersion = 1;
const lastStreamId = 0xffff_ffff;

export function openInitClient(channel: Duplex, options: InitClientOptions): InitClient {
  return new ChannelClient(channel, options);
}

class ChannelClient implements InitClient {
  readonly ready: Promise<void>;
  readonly lost: Promise<Loss>;
  readonly #channel: Duplex;
  readonly #decoder = new FrameDecoder();
  readonly #streams = new Map<number, HostStream>();
  readonly #pings = new Map<bigint, () => void>();
  #onReady: () => void = () => undefined;
  #onNotReady: (error: SallyportError) => void = () => undefined;
  #onLost: (loss: Loss) => void = () => undefined;
  #onDisk: (state: DiskState) => void = () => undefined;
  #loss: SallyportError | undefined;
  #fatal: string | undefined;
  #drained: Promise<void> | undefined;
  #nextId = 1;
  #nextToken = 1n;

  constructor(channel: Duplex, { lifetimeMs, readyDeadlineMs }: InitClientOptions) {
    this.#channel = channel;
    this.ready = new Promise((resolve, reject) => {
      this.#onReady = resolve;
      this.#onNotReady = reject;
    });
    this.ready.catch(() => undefined);
    this.lost = new Promise((resolve) => {
      this.#onLost = resolve;
    });
    const timer = setTimeout(
      () => this.#lose('init_lost', `init was not ready after ${readyDeadlineMs} ms`),
      readyDeadlineMs,
    );
    const stop = (): void => clearTimeout(timer);
    this.ready.then(stop, stop);
    channel.on('data', (bytes: Buffer) => this.#receive(bytes));
    channel.on('error', (error) => this.#lose('init_lost', error.message));
    channel.on('close', () => this.#lose('init_lost', this.#fatal ?? 'its channel closed'));
    channel.on('end', () => this.#lose('init_lost', this.#fatal ?? 'its channel ended'));
    void this.#send(
      encodeFrame(hostFrame.hello, 0, Buffer.concat([Buffer.from([protocolVersion, 0, 0, 0]), u64(lifetimeMs)])),
    );
  }

  spawn(spec: SpawnSpec): InitStream {
    return this.#open(hostFrame.spawn, encodeSpawn(spec));
  }

  file(identity: Identity, operation: FileOperation): InitStream {
    return this.#open(hostFrame.file, encodeFile(identity, operation));
  }

  async ping(deadlineMs: number): Promise<number> {
    const token = this.#nextToken++;
    const began = performance.now();
    let timer: NodeJS.Timeout | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        this.#pings.set(token, resolve);
        timer = setTimeout(
          () => reject(new SallyportError('deadline', `Cannot reach init: no answer in ${deadlineMs} ms`)),
          deadlineMs,
        );
        void this.#send(encodeFrame(hostFrame.ping, 0, u64(Number(token))));
      });
      return performance.now() - began;
    } finally {
      clearTimeout(timer);
      this.#pings.delete(token);
    }
  }

  onDisk(listener: (state: DiskState) => void): void {
    this.#onDisk = listener;
  }

  close(): void {
    this.#lose('init_lost', 'the host closed the channel');
  }

  #open(type: number, payload: Buffer): HostStream {
    if (this.#loss !== undefined) throw this.#loss;
    if (this.#streams.size >= openStreams) {
      throw new SallyportError(
        'too_many_streams',
        `Cannot start: ${openStreams} commands and file operations are under way in this sandbox`,
      );
    }
    const stream = new HostStream(this.#freeId(), (frame) => this.#send(frame));
    this.#streams.set(stream.id, stream);
    void this.#send(encodeFrame(type, stream.id, payload));
    return stream;
  }

  #freeId(): number {
    while (this.#streams.has(this.#nextId)) this.#advanceId();
    const id = this.#nextId;
    this.#advanceId();
    return id;
  }

  #advanceId(): void {
    this.#nextId = this.#nextId >= lastStreamId ? 1 : this.#nextId + 1;
  }

  /** @returns a promise only when the socket is full, so that a writer can wait and control frames need not */
  #send(frame: Buffer): Promise<void> | undefined {
    if (this.#loss !== undefined || this.#channel.destroyed) return undefined;
    if (this.#channel.write(frame)) return undefined;
    this.#drained ??= new Promise((resolve) => {
      const done = (): void => {
        this.#drained = undefined;
        this.#channel.off('drain', done).off('close', done);
        resolve();
      };
      this.#channel.once('drain', done).once('close', done);
    });
    return this.#drained;
  }

  #receive(bytes: Buffer): void {
    if (this.#loss !== undefined) return;
    try {
      for (const frame of this.#decoder.push(bytes)) this.#dispatch(decodeMessage(frame));
    } catch (error) {
      this.#lose('init_protocol', error instanceof Error ? error.message : String(error));
    }
  }

  #dispatch(message: Message): void {
    switch (message.kind) {
      case 'ready':
        this.#onReady();
        return;
      case 'pong':
        this.#pings.get(message.token)?.();
        return;
      case 'disk':
        this.#onDisk(message.state);
        return;
      case 'fatal':
        this.#fatal = message.text;
        return;
      default:
        this.#toStream(message);
    }
  }

  #toStream(message: Extract<Message, { stream: number }>): void {
    const stream = this.#streams.get(message.stream);
    if (stream === undefined) throw broken(`a frame for stream ${message.stream}, which is not open`);
    stream.take(message);
    if (message.kind === 'closed') this.#streams.delete(message.stream);
  }

  #lose(code: Loss['code'], detail: string): void {
    if (this.#loss !== undefined) return;
    const error = new SallyportError(code, `The sandbox's init is gone: ${detail}`);
    this.#loss = error;
    this.#channel.destroy();
    this.#onNotReady(error);
    for (const stream of this.#streams.values()) stream.fail(error);
    this.#streams.clear();
    this.#onLost({ code, detail });
  }
}
