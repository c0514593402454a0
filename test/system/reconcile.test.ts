/** RX-19, invariant 7: a process that dies at any point of a start leaves nothing that the next start does not remove. */
import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { loadPolicy } from '../../src/admission/policy.ts';
import { openHostSide } from '../../src/host/host-side.ts';
import { openSandboxes } from '../../src/sandbox/sandboxes.ts';
import { leftovers, takeInventory } from './inventory.ts';
import { home } from './range.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const policy = await loadPolicy(fileURLToPath(new URL('./policy.yaml', import.meta.url)));

/** `sallyport run` in a process of its own, with a command that would run for a minute. */
function startRun(): ChildProcess {
  const argv = [
    'bin/sallyport.js',
    'run',
    '--class',
    'analysis',
    '--output',
    '/tmp/sallyport-reconcile-out',
    '--',
    'sh',
    '-c',
    'echo started; sleep 60',
  ];
  return spawn(process.execPath, argv, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, SALLYPORT_HOME: home },
  });
}

function exited(child: ChildProcess): Promise<void> {
  return new Promise((resolve) =>
    child.exitCode !== null || child.signalCode !== null ? resolve() : child.once('exit', () => resolve()),
  );
}

describe('a new start', () => {
  it.each([150, 250, 300, 350, 400, 450, 500, 600, 1_000])(
    'removes what a process killed after %i ms left',
    async (delayMs) => {
      const before = takeInventory(home);
      const child = startRun();
      await sleep(delayMs);
      child.kill('SIGKILL');
      await exited(child);
      const sandboxes = await openSandboxes({ host: openHostSide({ home }), policy });
      await sandboxes.close();
      expect(await leftovers(home, before)).toEqual([]);
    },
  );

  it('does not touch what a living process owns', async () => {
    const before = takeInventory(home);
    const child = startRun();
    await new Promise((resolve) => child.stdout?.once('data', resolve));
    const sandboxes = await openSandboxes({ host: openHostSide({ home }), policy });
    expect(sandboxes.reconciled.removed).toEqual([]);
    expect(child.exitCode).toBeNull();
    await sandboxes.close();
    child.kill('SIGTERM');
    await exited(child);
    expect(await leftovers(home, before)).toEqual([]);
  });
});
