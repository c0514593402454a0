/** `npm run bench [-- name …]`: runs the measures one after the other; BENCH_SCALE=0.1 shortens them for a look. */
import { churn } from './churn.ts';
import { decisions } from './decisions.ts';
import { density } from './density.ts';
import { egress } from './egress.ts';
import { exec } from './exec.ts';
import { streaming } from './streaming.ts';
import { tti } from './tti.ts';

const scale = Number(process.env['BENCH_SCALE'] ?? '1');
const times = (n: number): number => Math.max(3, Math.round(n * scale));

const measures: Readonly<Record<string, () => Promise<void>>> = {
  tti: () => tti(times(100)),
  exec: () => exec(times(500)),
  streaming: () => streaming(Math.min(times(5), 5)),
  density: () => density(times(200)),
  churn: () => churn(times(500)),
  egress: () => egress(times(1_000)),
  decisions: () => decisions(times(20_000)),
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in measures));
if (unknown.length > 0) {
  process.stderr.write(`bench: no measure ${unknown.join(', ')}; there are ${Object.keys(measures).join(', ')}\n`);
  process.exit(2);
}
for (const [name, measure] of Object.entries(measures)) {
  if (wanted.length === 0 || wanted.includes(name)) await measure();
}
