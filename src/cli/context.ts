/** The surroundings of a command: its streams and environment, passed in so that tests can look at them. */

import type { Readable, Writable } from 'node:stream';
import type { ReadStream, WriteStream } from 'node:tty';

/** The variables that we read, and no others. */
export interface Environment {
  readonly SALLYPORT_HOME?: string | undefined;
  readonly SALLYPORT_URL?: string | undefined;
  readonly SALLYPORT_API_KEY?: string | undefined;
  readonly SALLYPORT_POLICY?: string | undefined;
}

export interface Context {
  readonly stdin: Readable & Partial<Pick<ReadStream, 'isTTY' | 'setRawMode'>>;
  readonly stdout: Writable & Partial<Pick<WriteStream, 'isTTY' | 'columns' | 'rows'>>;
  readonly stderr: Writable & Partial<Pick<WriteStream, 'isTTY'>>;
  readonly env: Environment;
}

export function processContext(): Context {
  return { stdin: process.stdin, stdout: process.stdout, stderr: process.stderr, env: process.env };
}
