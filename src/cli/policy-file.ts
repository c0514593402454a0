/** Which permission matrix counts: the one that was named, the one of the home, or the one that comes along. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Context } from './context.ts';
import { homeFiles, homeOf } from './home.ts';
import type { Options } from './options.ts';

export function policyFileOf(context: Context, options: Options): string {
  const named = options.text('policy') ?? context.env.SALLYPORT_POLICY;
  if (named !== undefined) return named;
  const own = homeFiles.policy(homeOf(context, options));
  return existsSync(own) ? own : fileURLToPath(new URL('../../policies/default.yaml', import.meta.url));
}
