/** A wait that ends: every wait of the host side names what it was for when it gives up. */
import { SallyportError } from '../errors/error.ts';

/** @throws SallyportError `deadline` when `promise` has not settled after `deadlineMs` */
export async function within<T>(promise: Promise<T>, deadlineMs: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new SallyportError('deadline', `${what}: no answer in ${deadlineMs} ms`)),
      deadlineMs,
    );
  });
  try {
    return await Promise.race([promise, expired]);
  } finally {
    clearTimeout(timer);
  }
}
