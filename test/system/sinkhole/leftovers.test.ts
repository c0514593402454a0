/** A world ends with its process, however that ends. Needs root. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { makeWorld } from './world.ts';

describe('nothing is left', () => {
  /** Another process that makes a world, runs something in it, and tells of what it is made. */
  async function startWorldElsewhere(): Promise<{ child: ChildProcess; namespaces: readonly string[] }> {
    const program = `
      import { spawn } from 'node:child_process';
      import { readdirSync, readlinkSync } from 'node:fs';
      import { runnerImport } from 'vite';
      const { module } = await runnerImport(process.argv[1], { configFile: false });
      const world = await module.makeWorld();
      const [command, ...rest] = [...world.wrapper, 'sleep', '600'];
      spawn(command, rest, { stdio: 'ignore' });
      await world.openDoor(1);
      const links = readdirSync('/proc/self/fd').map((fd) => { try { return readlinkSync('/proc/self/fd/' + fd); } catch { return ''; } });
      console.log(JSON.stringify(links.filter((link) => link.startsWith('net:'))));
      setInterval(() => undefined, 1000);`;
    const file = fileURLToPath(new URL('./world.ts', import.meta.url));
    const words = ['--input-type=module', '-e', program, file];
    const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    return { child, namespaces: JSON.parse(line) as string[] };
  }

  it('after SIGKILL: no process, no namespace, no link, no mount, no file', async () => {
    const before = hostState();
    const { child, namespaces } = await startWorldElsewhere();
    expect(new Set(namespaces).size).toBe(2);
    await expect.poll(() => usersOf(namespaces).length).toBeGreaterThanOrEqual(4);
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
    await expect.poll(() => usersOf(namespaces)).toEqual([]);
    await expect.poll(hostState).toEqual(before);
  });

  it('after close: no fd, no process; and it starts within two seconds', async () => {
    const fds = (): number => readdirSync('/proc/self/fd').length;
    const before = [fds(), childrenOf(process.pid)];
    const begun = performance.now();
    const another = await makeWorld();
    expect(performance.now() - begun).toBeLessThan(2_000);
    await another.close();
    await another.close();
    await expect.poll(() => [fds(), childrenOf(process.pid)]).toEqual(before);
  });

  function hostState(): unknown {
    const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n').length;
    return [
      readdirSync('/sys/class/net').sort(),
      mounts,
      readdirSync(tmpdir()).filter((name) => /sinkhole/.test(name)),
    ];
  }

  /** Processes that are in one of the namespaces or hold it open. */
  function usersOf(namespaces: readonly string[]): string[] {
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    return pids.filter((pid) => heldBy(pid).some((link) => namespaces.includes(link)));
  }

  function heldBy(pid: string): string[] {
    const links = [`/proc/${pid}/ns/net`, ...names(`/proc/${pid}/fd`).map((fd) => `/proc/${pid}/fd/${fd}`)];
    return links.map((link) => {
      try {
        return readlinkSync(link);
      } catch {
        return '';
      }
    });
  }

  function names(path: string): string[] {
    try {
      return statSync(path).isDirectory() ? readdirSync(path) : [];
    } catch {
      return [];
    }
  }

  function childrenOf(pid: number): string {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  }
});
