/**
 * Namespaces made ahead, because arming one takes longer than all else of a start. Each is used once: a pool that took them
 * back would hand one sandbox's connection tracking to the next.
 */
import { makeTrapNetns, type TrapNetns } from './netns.ts';

export interface NetnsPool {
  /** A ready one, or the next that is made. @throws what `make` throws */
  take(): Promise<TrapNetns>;
  /** Starts making as many as the pool holds. */
  fill(): void;
  close(): Promise<void>;
}

/** @param size how many wait ready; 0 makes each when it is asked for */
export function openNetnsPool(size: number, make: () => Promise<TrapNetns> = makeTrapNetns): NetnsPool {
  const ready: TrapNetns[] = [];
  let making: Promise<void> | undefined;
  let isOpen = true;

  // one at a time: what waits for a namespace must not wait longer because four are made at once
  const refill = async (): Promise<void> => {
    while (isOpen && ready.length < size) ready.push(await make());
  };
  const fill = (): void => {
    // a failure is not kept: who takes next makes his own and is told why it fails
    making ??= refill()
      .catch(() => undefined)
      .finally(() => {
        making = undefined;
      });
  };
  return {
    fill,
    take: async () => {
      const next = ready.shift();
      fill();
      return next ?? make();
    },
    close: async () => {
      isOpen = false;
      await making;
      for (const netns of ready.splice(0)) netns.close();
    },
  };
}
