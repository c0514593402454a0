/** B3: 1 GB of stdout through the HTTP API; then a reader that stops, and what the daemon's memory does meanwhile. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Daemon, startDaemon } from './lib/daemon.ts';
import { report } from './lib/report.ts';
import { round, summarize } from './lib/statistics.ts';

const total = 1_000_000_000;
const command = ['head', '-c', String(total), '/dev/zero'];
const stallMs = 5_000;

export async function streaming(n: number): Promise<void> {
  const daemon = await startDaemon();
  try {
    const id = await daemon.api.create({ class: 'coding' });
    // first, while the daemon has grown for no other reason
    const stalled = await stalledReader(daemon, id);
    const rates: number[] = [];
    for (let index = 0; index < n; index++) rates.push(await rate(daemon, id));
    await daemon.api.destroy(id);
    const slowest = Math.min(...rates);
    report({
      name: 'streaming',
      method: `head -c ${total} /dev/zero in a container, read by a client in another process over loopback HTTP (binary form), ${n} times; before that once with a client that stops reading for ${stallMs} ms`,
      summary: {
        'MB/s': rates.map(round),
        'MB/s slowest': round(slowest),
        seconds: summarize(rates.map((value) => total / 1e6 / value)),
        'daemon RSS growth, stalled reader, MiB': stalled.growthMib,
        'bytes received while stalled': stalled.received,
      },
      raw: { rates, ...stalled },
    });
  } finally {
    await daemon.stop();
  }
}

async function rate({ api }: Daemon, id: string): Promise<number> {
  let bytes = 0;
  const began = performance.now();
  await api.stream(id, command, (chunk) => {
    bytes += chunk.length;
  });
  const seconds = (performance.now() - began) / 1000;
  if (bytes < total) throw new Error(`only ${bytes} bytes of ${total} arrived`);
  return bytes / 1e6 / seconds;
}

async function stalledReader(
  { api, pid }: Daemon,
  id: string,
): Promise<{ growthMib: number; received: number; rssMib: number[] }> {
  const before = rssMib(pid);
  const seen: number[] = [];
  let received = 0;
  let stalled = false;
  await api.stream(id, command, async (chunk) => {
    received += chunk.length;
    if (stalled) return;
    stalled = true;
    for (let waited = 0; waited < stallMs; waited += 250) {
      await sleep(250);
      seen.push(rssMib(pid));
    }
  });
  return { growthMib: round(Math.max(...seen) - before), received, rssMib: seen };
}

function rssMib(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? Number.NaN) / 1024;
}
