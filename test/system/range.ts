/**
 * The shooting range: real sandboxes of every tier, opened once per test file and checked for leftovers at its end
 * (O3). A tier that cannot start here is skipped with its reason in the output, never passed.
 */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { type SandboxRequest, type Tier, tiers } from '../../src/admission/grant.ts';
import { loadPolicy } from '../../src/admission/policy.ts';
import { openHostSide } from '../../src/host/host-side.ts';
import type { HostSide } from '../../src/host/types.ts';
import { type OpenedSandboxes, openSandboxes } from '../../src/sandbox/sandboxes.ts';
import type { ExecResult, ExecSpec, Sandbox } from '../../src/sandbox/types.ts';
import { type Inventory, leftovers, takeInventory } from './inventory.ts';

export const home = process.env['SALLYPORT_HOME'] ?? '/var/lib/sallyport';
const policyFile = fileURLToPath(new URL('./policy.yaml', import.meta.url));

export interface Shot {
  readonly stdout: string;
  readonly stderr: string;
  readonly bytes: Buffer;
  readonly result: ExecResult;
}

export interface Range {
  readonly tier: Tier;
  readonly host: HostSide;
  readonly sandboxes: OpenedSandboxes;
  create(request?: Partial<SandboxRequest>, inputs?: readonly string[]): Promise<Sandbox>;
  /** A sandbox for one body of a test, ended afterwards whatever happened. */
  with<T>(body: (sandbox: Sandbox) => Promise<T>, request?: Partial<SandboxRequest>): Promise<T>;
}

/** Runs the same suite in every tier (2.1: one suite over all tiers). */
export function onEveryTier(name: string, suite: (range: () => Range) => void): void {
  describe.each(tiers)(`${name} [%s]`, (tier) => {
    let opened: Range | undefined;
    let before: Inventory | undefined;
    let reason = '';
    beforeAll(async () => {
      const host = openHostSide({ home });
      before = takeInventory(home);
      const capability = await host.exercise(tier);
      if (!capability.available) reason = capability.reason;
      else opened = await openRange(host, tier);
    });
    afterAll(async () => {
      await opened?.sandboxes.close();
      if (before === undefined) return;
      const left = await leftovers(home, before);
      if (left.length > 0) throw new Error(`O3: the host holds what was not there before: ${left.join('; ')}`);
    });
    it('can be started here', (context) => {
      if (opened === undefined) context.skip(`tier ${tier} is not available: ${reason}`);
    });
    suite(() => {
      if (opened === undefined) throw new Error(`tier ${tier} is not available: ${reason}`);
      return opened;
    });
  });
}

async function openRange(host: HostSide, tier: Tier): Promise<Range> {
  const sandboxes = await openSandboxes({ host, policy: await loadPolicy(policyFile) });
  const create: Range['create'] = (request = {}, inputs = []) =>
    sandboxes.create({ request: { class: 'plain', tier, ...request }, inputs });
  return {
    tier,
    host,
    sandboxes,
    create,
    with: async (body, request) => {
      const sandbox = await create(request);
      try {
        return await body(sandbox);
      } finally {
        await sandbox.end('finished');
      }
    },
  };
}

/** Runs a command and collects its output (bounded by the Grant). */
export async function shoot(
  sandbox: Sandbox,
  argv: readonly (string | Buffer)[],
  spec: Omit<ExecSpec, 'argv'> = {},
): Promise<Shot> {
  const exec = sandbox.exec({ argv, timeoutMs: 20_000, ...spec });
  const parts = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  for await (const { channel, data } of exec.output) parts[channel].push(data);
  const result = await exec.result;
  const bytes = Buffer.concat(parts.stdout);
  return { stdout: bytes.toString('utf8'), stderr: Buffer.concat(parts.stderr).toString('utf8'), bytes, result };
}

/** `sh -c` with a script. */
export function shell(sandbox: Sandbox, script: string, spec: Omit<ExecSpec, 'argv'> = {}): Promise<Shot> {
  return shoot(sandbox, ['sh', '-c', script], spec);
}

/** `python3 -c` with a program: both tiers have it. */
export function python(sandbox: Sandbox, program: string, spec: Omit<ExecSpec, 'argv'> = {}): Promise<Shot> {
  return shoot(sandbox, ['/usr/bin/python3', '-c', program], spec);
}
