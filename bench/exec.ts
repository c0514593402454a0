/** B2, exec latency in a running sandbox: `true` through the HTTP API; floors: `nsenter … true` and `crun exec`-like peers. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { home, startDaemon } from './lib/daemon.ts';
import { report } from './lib/report.ts';
import { round, summarize } from './lib/statistics.ts';

export async function exec(n: number): Promise<void> {
  const daemon = await startDaemon();
  try {
    const id = await daemon.api.create({ class: 'analysis', limits: { pids: 64 } });
    const pid = readFileSync(join(home, 'run/boxes', id, 'pid'), 'utf8').trim();
    const samples = { api: [] as number[], nsenter: [] as number[], 'true from Node': [] as number[] };
    for (let warm = 0; warm < 20; warm++) await daemon.api.exec(id, ['true']);
    for (let index = 0; index < n; index++) {
      samples.api.push(await timed(async () => void (await daemon.api.exec(id, ['true']))));
      samples.nsenter.push(
        await timed(() =>
          runOnce('nsenter', ['-t', pid, '-U', '-m', '-u', '-i', '-n', '-p', '-C', '--preserve-credentials', 'true']),
        ),
      );
      samples['true from Node'].push(await timed(() => runOnce('true', [])));
    }
    await daemon.api.destroy(id);
    const [api, nsenter] = [summarize(samples.api), summarize(samples.nsenter)];
    report({
      name: 'exec',
      method: `"true" in a running container: POST …/exec answered as JSON, against nsenter into the same sandbox started from the same program; ${n} interleaved rounds`,
      summary: {
        api,
        nsenter,
        'true from Node': summarize(samples['true from Node']),
        'api ÷ nsenter (p50)': round(api.p50 / nsenter.p50),
      },
      raw: samples,
    });
  } finally {
    await daemon.stop();
  }
}

async function timed(work: () => void | Promise<void>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

function runOnce(program: string, args: readonly string[]): void {
  const { status, stderr } = spawnSync(program, args);
  if (status !== 0) throw new Error(`${program} ended with ${status}: ${stderr}`);
}
