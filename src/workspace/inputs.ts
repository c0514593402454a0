/** The inputs of one sandbox, copied from the host paths that the operator named. All of them, or nothing is left. */
import type { InputLimits } from './input-tally.ts';
import { openStaging } from './staging.ts';
import type { StagedInputs } from './types.ts';

/**
 * @param into made here; it becomes what the sandbox sees at /inputs
 * @throws SallyportError `input_missing`, `input_unreadable`, `input_too_large`, `invalid_request`, `host_disk_full`
 */
export async function stageInputs(
  paths: readonly (string | Buffer)[],
  into: string,
  limits: InputLimits,
): Promise<StagedInputs> {
  const staging = await openStaging(into, limits);
  try {
    for (const path of paths) await staging.addPath(path);
    return await staging.finish();
  } catch (thrown) {
    await staging.discard();
    throw thrown;
  }
}
