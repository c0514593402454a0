/** The two streamed forms of an exec's output. Each encoder writes at once and leaves waiting to its caller. */
import type { ServerResponse } from 'node:http';
import type { OutputChunk } from '../../init/types.ts';
import type { ExecResult } from '../../sandbox/types.ts';
import type { ErrorBody } from '../error-answer.ts';

/** What is said about an exec, beside its output. */
export type ExecMessage =
  | { readonly type: 'start'; readonly execId: string }
  | { readonly type: 'result'; readonly result: ExecResult }
  | { readonly type: 'error'; readonly error: ErrorBody };

export interface ExecEncoding {
  readonly contentType: string;
  message(answer: ServerResponse, message: ExecMessage): void;
  output(answer: ServerResponse, chunk: OutputChunk): void;
}

/** One JSON object a line; output as base64. */
const ndjsonEncoding: ExecEncoding = {
  contentType: 'application/x-ndjson',
  message: (answer, message) => {
    answer.write(`${JSON.stringify(message)}\n`);
  },
  // channel is one of two words and base64 needs no escape, so the line is JSON as it stands
  output: (answer, { channel, data }) => {
    answer.write(`{"type":"output","channel":"${channel}","data":"${data.toString('base64')}"}\n`);
  },
};

/** Channels of the binary form. */
export const streamChannels = { stdout: 1, stderr: 2, message: 3 } as const;
export const streamHeaderBytes = 8;

/** Frames of u8 channel, 3 zero bytes, u32 big-endian length, payload. Output bytes are passed on uncopied. */
const binaryEncoding: ExecEncoding = {
  contentType: 'application/vnd.sallyport.exec-stream',
  message: (answer, message) => {
    writeFrame(answer, streamChannels.message, Buffer.from(JSON.stringify(message)));
  },
  output: (answer, { channel, data }) => writeFrame(answer, streamChannels[channel], data),
};

function writeFrame(answer: ServerResponse, channel: number, payload: Buffer): void {
  const header = Buffer.allocUnsafe(streamHeaderBytes);
  header.writeUInt32BE(channel << 24, 0);
  header.writeUInt32BE(payload.length, 4);
  answer.cork();
  answer.write(header);
  answer.write(payload);
  answer.uncork();
}

/** The form that an Accept header asks for; undefined: one JSON answer at the end. */
export function encodingFor(accept: string | undefined): ExecEncoding | undefined {
  return [binaryEncoding, ndjsonEncoding].find(({ contentType }) => accept?.includes(contentType) === true);
}
