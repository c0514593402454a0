/** The one error class that crosses module borders: a code of the table and a sentence about this case. */
import { type ErrorCode, errorTable } from './table.ts';

export class SallyportError extends Error {
  readonly code: ErrorCode;

  /**
   * @param code a row of {@link errorTable}
   * @param message what was attempted, what is wrong, what value was seen: "Cannot start sandbox: crun not found on PATH"
   */
  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'SallyportError';
    this.code = code;
  }

  get status(): number {
    return errorTable[this.code].status;
  }
  get retry(): boolean {
    return errorTable[this.code].retry;
  }
  get next(): string {
    return errorTable[this.code].next;
  }

  /** What a caller sees, in the API and in the CLI with --json. */
  toJSON(): { code: ErrorCode; message: string; retry: boolean; next: string } {
    return { code: this.code, message: this.message, retry: this.retry, next: this.next };
  }
}

/** Turns anything thrown into a SallyportError; what is not ours becomes `internal` with the cause kept. */
export function asSallyportError(thrown: unknown): SallyportError {
  if (thrown instanceof SallyportError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new SallyportError('internal', message, { cause: thrown });
}
