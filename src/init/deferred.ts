/** A promise with its two ends, for what an event of the channel settles. Nobody has to wait for it: an unheard rejection is no crash. */

export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(error: unknown): void;
}

export function deferred<T>(): Deferred<T> {
  let resolve: (value: T) => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  return { promise: heard(promise), resolve, reject };
}

/** Marks a promise as heard, so that its rejection does not end the process when no caller waits for it. */
export function heard<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}
