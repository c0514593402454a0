/** B5: host memory per idle sandbox, as the host sees it (MemAvailable before and after), and exec latency at the top. */
import { readFileSync } from 'node:fs';
import { startDaemon } from './lib/daemon.ts';
import { report, settledMemAvailableKib } from './lib/report.ts';
import { round, summarize } from './lib/statistics.ts';

export async function density(count: number): Promise<void> {
  const daemon = await startDaemon();
  try {
    const first = await daemon.api.create(idle);
    const baseline = await latencies(daemon.api, [first]);
    const before = await settledMemAvailableKib();
    const ids: string[] = [];
    while (ids.length < count) {
      ids.push(await daemon.api.create(idle));
    }
    const mibEach = round((before - (await settledMemAvailableKib())) / 1024 / count);
    const top = await latencies(daemon.api, ids);
    const daemonRssMib = round(
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1]) / 1024,
    );
    for (const id of [first, ...ids]) await daemon.api.destroy(id);
    report({
      name: 'density',
      method: `${count} idle containers through the API; MemAvailable, once it has settled, before the first and after the last, divided by their number (the daemon's own growth included); exec "true" in one sandbox before, in all of them after`,
      summary: {
        'MiB per idle sandbox': mibEach,
        'daemon RSS, MiB': daemonRssMib,
        'exec alone': summarize(baseline),
        [`exec at ${count}`]: summarize(top),
      },
      raw: { mibEach, baseline, top },
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
