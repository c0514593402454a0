/** Gives an action the store of the home. The keys are the operator's, so no daemon and no key is needed for them. */
import { mkdirSync } from 'node:fs';
import type { Store } from '../../store/store.ts';
import type { Context } from '../context.ts';
import { homeFiles, homeOf } from '../home.ts';
import type { Options } from '../options.ts';

export async function withStore<Value>(
  context: Context,
  options: Options,
  action: (store: Store) => Promise<Value>,
): Promise<Value> {
  const { openStore } = await import('../../store/store.ts');
  const home = homeOf(context, options);
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const store = await openStore(homeFiles.store(home));
  try {
    return await action(store);
  } finally {
    await store.close();
  }
}
