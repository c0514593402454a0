/** What init says, decoded strictly: a wrong length or value is `init_protocol`. */
import { broken, type Frame, initFrame } from './frame.ts';
import { type DiskState, type ExitReport, type Stage, stages } from './types.ts';

export type Message =
  | { readonly kind: 'ready' }
  | { readonly kind: 'started'; readonly stream: number; readonly pid: number }
  | { readonly kind: 'output'; readonly stream: number; readonly channel: 'stdout' | 'stderr'; readonly data: Buffer }
  | { readonly kind: 'stdin-credit'; readonly stream: number; readonly bytes: number }
  | { readonly kind: 'exit'; readonly stream: number; readonly report: ExitReport }
  | { readonly kind: 'closed'; readonly stream: number }
  | { readonly kind: 'pong'; readonly token: bigint }
  | { readonly kind: 'disk'; readonly state: DiskState }
  | { readonly kind: 'fatal'; readonly text: string };

const version = 1;
const outputMax = 262_144;

/** @throws SallyportError `init_protocol` */
export function decodeMessage({ type, stream, payload }: Frame): Message {
  switch (type) {
    case initFrame.ready:
      expectLength(payload, 4, 'READY');
      if (payload.readUInt16LE(0) !== version) throw broken(`version ${payload.readUInt16LE(0)}, this is ${version}`);
      return { kind: 'ready' };
    case initFrame.started:
      expectLength(payload, 4, 'STARTED');
      return { kind: 'started', stream, pid: payload.readUInt32LE(0) };
    case initFrame.stdout:
    case initFrame.stderr:
      if (payload.length === 0 || payload.length > outputMax)
        throw broken(`${payload.length} bytes of output in one frame`);
      return { kind: 'output', stream, channel: type === initFrame.stdout ? 'stdout' : 'stderr', data: payload };
    case initFrame.stdinCredit:
      expectLength(payload, 4, 'STDIN_CREDIT');
      return { kind: 'stdin-credit', stream, bytes: payload.readUInt32LE(0) };
    case initFrame.exit:
      return { kind: 'exit', stream, report: decodeExit(payload) };
    case initFrame.closed:
      expectLength(payload, 8, 'CLOSED');
      return { kind: 'closed', stream };
    case initFrame.pong:
      expectLength(payload, 8, 'PONG');
      return { kind: 'pong', token: payload.readBigUInt64LE(0) };
    case initFrame.disk:
      return { kind: 'disk', state: decodeDisk(payload) };
    default:
      if (payload.length < 4 || payload.length > 260) throw broken(`FATAL of ${payload.length} bytes`);
      return { kind: 'fatal', text: payload.subarray(4).toString('utf8') };
  }
}

function decodeExit(payload: Buffer): ExitReport {
  expectLength(payload, 56, 'EXIT');
  return {
    outcome: decodeOutcome(payload.readUInt32LE(0), payload.readUInt32LE(4), payload.readUInt32LE(8)),
    killed: (payload.readUInt32LE(12) & 1) === 1,
    discarded: { stdout: readU64(payload, 16), stderr: readU64(payload, 24) },
    userMicros: readU64(payload, 32),
    systemMicros: readU64(payload, 40),
    maxRssKib: readU64(payload, 48),
  };
}

function decodeOutcome(kind: number, value: number, stage: number): ExitReport['outcome'] {
  if (kind === 0 && value <= 255) return { kind: 'exited', code: value };
  if (kind === 1 && value >= 1 && value <= 64) return { kind: 'signalled', signal: value };
  if (kind === 2) return { kind: 'failed', errno: value, stage: stageOf(stage) };
  if (kind === 3) return { kind: 'lost' };
  throw broken(`an exit of kind ${kind} with value ${value}`);
}

function stageOf(number: number): Stage {
  const stage = stages[number];
  if (stage === undefined) throw broken(`the stage ${number}`);
  return stage;
}

function decodeDisk(payload: Buffer): DiskState {
  expectLength(payload, 32, 'DISK');
  return {
    freeBytes: readU64(payload, 0),
    totalBytes: readU64(payload, 8),
    freeInodes: readU64(payload, 16),
    totalInodes: readU64(payload, 24),
  };
}

function expectLength(payload: Buffer, length: number, name: string): void {
  if (payload.length !== length) throw broken(`${name} of ${payload.length} bytes`);
}

/** Counters that pass 2⁵³ are as good as there. */
function readU64(payload: Buffer, at: number): number {
  return Number(payload.readBigUInt64LE(at));
}
