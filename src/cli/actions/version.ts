/** `sallyport version`. */
import { packageVersion } from '../../units/package-version.ts';
import type { Action } from '../command.ts';
import { write } from '../terminal/write.ts';

export const run: Action = async (context) => {
  await write(context.stdout, `${packageVersion()}\n`);
  return undefined;
};
