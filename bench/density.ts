/** B5: host memory per idle sandbox, as the host sees it (MemAvailable before and after), and exec latency at the top. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { startDaemon } from './lib/daemon.ts';
import { memAvailableKib, report } from './lib/report.ts';
import { round, summarize } from './lib/statistics.ts';

export async function density(count: number): Promise<void> {
  const daemon = await startDaemon();
  try {
    const first = await daemon.api.create(idle);
    const baseline = await latencies(daemon.api, [first]);
    await sleep(1_000);
    const before = memAvailableKib();
    const ids: string[] = [];
    const steps: { sandboxes: number; mibEach: number }[] = [];
    while (ids.length < count) {
      ids.push(await daemon.api.create(idle));
      if (ids.length % 50 === 0)
        steps.push({ sandboxes: ids.length, mibEach: round((before - memAvailableKib()) / 1024 / ids.length) });
    }
    await sleep(2_000);
    const mibEach = round((before - memAvailableKib()) / 1024 / count);
    const top = await latencies(daemon.api, ids);
    const daemonRssMib = round(
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1]) / 1024,
    );
    for (const id of [first, ...ids]) await daemon.api.destroy(id);
    report({
      name: 'density',
      method: `${count} idle containers through the API; MemAvailable before the first and after the last, divided by their number (the daemon's own growth included); exec "true" in one sandbox before, in all of them after`,
      summary: {
        'MiB per idle sandbox': mibEach,
        'daemon RSS, MiB': daemonRssMib,
        steps,
        'exec alone': summarize(baseline),
        [`exec at ${count}`]: summarize(top),
      },
      raw: { steps, baseline, top },
    });
  } finally {
    await daemon.stop();
  }
}

const idle = { class: 'analysis', limits: { pids: 64 } };

async function latencies(
  api: { exec(id: string, argv: readonly string[]): Promise<unknown> },
  ids: readonly string[],
): Promise<number[]> {
  const samples: number[] = [];
  for (let index = 0; index < 200; index++) {
    const began = performance.now();
    await api.exec(ids[index % ids.length] ?? '', ['true']);
    samples.push(performance.now() - began);
  }
  return samples;
}
