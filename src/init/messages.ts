/** What init says, typed. The decoder of frames has checked the lengths; values that no init may send are `init_protocol`. */
import { broken, type Frame, initFrame } from './frame.ts';
import { type Channel, type DiskState, type ExitReport, type Stage, stages } from './types.ts';

/** About one stream. */
export type StreamMessage =
  | { readonly kind: 'started'; readonly stream: number; readonly pid: number }
  | { readonly kind: 'output'; readonly stream: number; readonly channel: Channel; readonly data: Buffer }
  | { readonly kind: 'stdin-credit'; readonly stream: number; readonly bytes: number }
  | { readonly kind: 'exit'; readonly stream: number; readonly report: ExitReport }
  | { readonly kind: 'closed'; readonly stream: number };

export type Message =
  | StreamMessage
  | { readonly kind: 'ready' }
  | { readonly kind: 'pong'; readonly token: bigint }
  | { readonly kind: 'disk'; readonly state: DiskState }
  | { readonly kind: 'fatal'; readonly code: number; readonly text: string };

const version = 1;
const highestErrno = 4_095;

/** @throws SallyportError `init_protocol` */
export function decodeMessage({ type, stream, payload }: Frame): Message {
  switch (type) {
    case initFrame.stdout:
      return { kind: 'output', stream, channel: 'stdout', data: payload };
    case initFrame.stderr:
      return { kind: 'output', stream, channel: 'stderr', data: payload };
    case initFrame.stdinCredit:
      return { kind: 'stdin-credit', stream, bytes: payload.readUInt32LE(0) };
    case initFrame.started:
      return { kind: 'started', stream, pid: payload.readUInt32LE(0) };
    case initFrame.exit:
      return { kind: 'exit', stream, report: decodeExit(payload) };
    case initFrame.closed:
      return { kind: 'closed', stream };
    case initFrame.ready:
      return decodeReady(payload);
    case initFrame.pong:
      return { kind: 'pong', token: payload.readBigUInt64LE(0) };
    case initFrame.disk:
      return { kind: 'disk', state: decodeDisk(payload) };
    case initFrame.fatal:
      return { kind: 'fatal', code: payload.readUInt32LE(0), text: payload.toString('utf8', 4) };
  }
}

function decodeReady(payload: Buffer): Message {
  const seen = payload.readUInt16LE(0);
  if (seen !== version || payload.readUInt16LE(2) !== 0) throw broken(`READY of version ${seen}, this is ${version}`);
  return { kind: 'ready' };
}

function decodeExit(payload: Buffer): ExitReport {
  const flags = payload.readUInt32LE(12);
  if (flags > 1) throw broken(`EXIT with the flags 0x${flags.toString(16)}`);
  return {
    outcome: decodeOutcome(payload.readUInt32LE(0), payload.readUInt32LE(4), payload.readUInt32LE(8)),
    killed: flags === 1,
    discarded: { stdout: readU64(payload, 16), stderr: readU64(payload, 24) },
    userMicros: readU64(payload, 32),
    systemMicros: readU64(payload, 40),
    maxRssKib: readU64(payload, 48),
  };
}

function decodeOutcome(kind: number, value: number, stage: number): ExitReport['outcome'] {
  if (kind === 0 && value <= 255) return { kind: 'exited', code: value };
  if (kind === 1 && value >= 1 && value <= 64) return { kind: 'signalled', signal: value };
  if (kind === 2 && value <= highestErrno) return { kind: 'failed', errno: value, stage: stageOf(stage) };
  if (kind === 3) return { kind: 'lost' };
  throw broken(`EXIT of kind ${kind} with the value ${value}`);
}

function stageOf(number: number): Stage {
  const stage = stages[number];
  if (stage === undefined) throw broken(`EXIT at the stage ${number}`);
  return stage;
}

function decodeDisk(payload: Buffer): DiskState {
  return {
    freeBytes: readU64(payload, 0),
    totalBytes: readU64(payload, 8),
    freeInodes: readU64(payload, 16),
    totalInodes: readU64(payload, 24),
  };
}

/** A counter past 2⁵³ loses its last digits: no clock or disk counts so far. */
function readU64(payload: Buffer, at: number): number {
  return Number(payload.readBigUInt64LE(at));
}
