/** A token bucket that bytes wait at: a burst of one second, then the rate. Time is passed in. */
export class TokenBucket {
  readonly #perSecond: number;
  #tokens: number;
  #atMs: number;

  constructor(bytesPerSecond: number, nowMs: number) {
    this.#perSecond = bytesPerSecond;
    this.#tokens = bytesPerSecond;
    this.#atMs = nowMs;
  }

  /** Takes the bytes, into debt if need be. @returns how long to wait before more is taken, in milliseconds */
  take(bytes: number, nowMs: number): number {
    const earned = ((nowMs - this.#atMs) / 1000) * this.#perSecond;
    this.#tokens = Math.min(this.#perSecond, this.#tokens + earned) - bytes;
    this.#atMs = nowMs;
    return this.#tokens >= 0 ? 0 : (-this.#tokens / this.#perSecond) * 1000;
  }
}
