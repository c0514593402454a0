/** Looks a sandbox up by id, so that one which ended is told from one that never was. */
import { SallyportError } from '../errors/error.ts';
import { endReasons, type Sandbox, type SandboxInfo } from '../sandbox/types.ts';
import type { StoredSandbox } from '../store/sandbox-repository.ts';
import type { ServerDeps } from './deps.ts';

type Sources = Pick<ServerDeps, 'sandboxes' | 'store'>;

/** @throws SallyportError `sandbox_ended`, `sandbox_not_found` */
export function runningSandbox(deps: Sources, id: string): Sandbox {
  try {
    return deps.sandboxes.get(id);
  } catch (thrown) {
    const info = endedInfo(deps, id);
    if (info === undefined) throw thrown;
    throw new SallyportError('sandbox_ended', `Sandbox ${id} has ended: ${info.endDetail ?? info.endReason ?? ''}`);
  }
}

/** Of a running or an ended one. @throws SallyportError `sandbox_not_found` */
export function sandboxInfo(deps: Sources, id: string): SandboxInfo {
  const info = deps.sandboxes.list().find((running) => running.id === id) ?? endedInfo(deps, id);
  if (info !== undefined) return info;
  throw new SallyportError('sandbox_not_found', `Cannot find sandbox ${id}`);
}

function endedInfo({ sandboxes, store }: Sources, id: string): SandboxInfo | undefined {
  const recent = sandboxes.list({ ended: true }).find((info) => info.id === id);
  if (recent !== undefined) return recent;
  const stored = store.sandboxes.get(id)?.info;
  return stored === undefined ? undefined : infoOf(stored);
}

/** What only the store knows has ended, whatever state it was in when a daemon was killed. */
function infoOf({ endReason, ...rest }: StoredSandbox): SandboxInfo {
  const known = endReasons.find((reason) => reason === endReason);
  return { ...rest, state: 'ended', endReason: known ?? 'daemon-stop' };
}
