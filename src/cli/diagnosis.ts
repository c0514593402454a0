/**
 * What this host can do, found out by doing it: a tier counts as available when a sandbox has started in it
 * (invariant 5), never because a program answers to `--version`.
 */
import { readFileSync, statfsSync } from 'node:fs';
import { release } from 'node:os';
import { tiers } from '../admission/grant.ts';
import { loadPolicy } from '../admission/policy.ts';
import { asSallyportError } from '../errors/error.ts';
import { openHostSide } from '../host/host-side.ts';
import type { HostSide } from '../host/types.ts';
import { formatBytes } from '../units/bytes.ts';

export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'failed' | 'note';
  readonly detail: string;
  readonly next?: string;
}

/** Below this, sandboxes with disk-backed workspaces soon fail. */
const lowDiskBytes = 2 * 1024 ** 3;

/** Findings as they are made: starting sandboxes takes its time. */
export async function* diagnose(home: string, policyFile: string): AsyncGenerator<Finding> {
  yield { check: 'kernel', status: 'ok', detail: release() };
  yield { check: 'node', status: 'ok', detail: process.version };
  yield attempt('cgroups', () => cgroupMode());
  yield attempt('user namespaces', () => `${readNumber('/proc/sys/user/max_user_namespaces')} allowed`);
  yield* diagnosePolicy(policyFile);
  const host = openOrExplain(home);
  if ('status' in host) return yield host;
  try {
    yield { check: 'root', status: 'ok', detail: 'running as root' };
    yield diskOf(home);
    yield* diagnoseHost(host);
  } finally {
    await host.close();
  }
}

async function* diagnosePolicy(file: string): AsyncGenerator<Finding> {
  try {
    const policy = await loadPolicy(file);
    yield { check: 'policy', status: 'ok', detail: `${file}: ${policy.classes.map(({ name }) => name).join(', ')}` };
  } catch (thrown) {
    yield failure('policy', thrown);
  }
}

async function* diagnoseHost(host: HostSide): AsyncGenerator<Finding> {
  try {
    const images = [...(await host.images()).keys()];
    const isComplete = images.includes('base');
    const detail = images.length === 0 ? 'none' : images.join(', ');
    yield { check: 'images', status: isComplete ? 'ok' : 'failed', detail, ...(isComplete ? {} : { next: imageNext }) };
  } catch (thrown) {
    yield failure('images', thrown);
  }
  for (const tier of tiers) {
    const capability = await host.exercise(tier);
    const check = `tier ${tier}`;
    if (!capability.available) yield { check, status: 'failed', detail: capability.reason };
    else {
      const { runtime, version, startMs } = capability;
      yield { check, status: 'ok', detail: `a sandbox started in ${Math.round(startMs)} ms (${runtime} ${version})` };
    }
  }
}

const imageNext = 'Run "scripts/setup" on the host to build the image "base".';

function openOrExplain(home: string): HostSide | Finding {
  try {
    return openHostSide({ home });
  } catch (thrown) {
    const finding = failure('host side', thrown);
    return asSallyportError(thrown).code === 'not_root' ? { ...finding, check: 'root' } : finding;
  }
}

function diskOf(home: string): Finding {
  const { bavail, bsize } = statfsSync(home);
  const free = bavail * bsize;
  const detail = `${home}: ${formatBytes(free - (free % 1024 ** 2))} free`;
  return { check: 'home', status: free < lowDiskBytes ? 'note' : 'ok', detail };
}

function attempt(check: string, look: () => string): Finding {
  try {
    return { check, status: 'ok', detail: look() };
  } catch (thrown) {
    return failure(check, thrown);
  }
}

function failure(check: string, thrown: unknown): Finding {
  const { code, message, next } = asSallyportError(thrown);
  return { check, status: 'failed', detail: message, ...(code === 'internal' ? {} : { next }) };
}

function cgroupMode(): string {
  const types = readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[2]);
  if (!types.includes('cgroup')) return types.includes('cgroup2') ? 'v2' : 'none mounted';
  return types.includes('cgroup2') ? 'hybrid (v1 controllers)' : 'v1';
}

function readNumber(file: string): number {
  return Number(readFileSync(file, 'utf8'));
}
