/** `sallyport matrix show`: the permission matrix, of a file and without a daemon. */
import { matrixJson, renderMatrix } from '../../admission/matrix.ts';
import { loadPolicy } from '../../admission/policy.ts';
import type { Action } from '../command.ts';
import { policyFileOf } from '../policy-file.ts';
import { write, writeJson } from '../terminal/write.ts';

/** Where output is no terminal: what people expect of a page. */
const pageColumns = 80;

export const run: Action = async (context, { options }) => {
  const policy = await loadPolicy(policyFileOf(context, options));
  if (options.flag('json')) await writeJson(context.stdout, matrixJson(policy));
  else await write(context.stdout, renderMatrix(policy, { width: context.stdout.columns ?? pageColumns }));
  return undefined;
};
