/** What the daemon counts about itself, in Prometheus text. Counters begin at its start. */
import type { Exec, Sandbox, Sandboxes } from '../sandbox/types.ts';

export class Metrics {
  readonly #ends = new Map<string, number>();
  #created = 0;
  #execs = 0;
  #outputBytes = 0;

  countSandbox(sandbox: Sandbox): void {
    this.#created++;
    void sandbox.ended.then(({ endReason = 'platform' }) => {
      this.#ends.set(endReason, (this.#ends.get(endReason) ?? 0) + 1);
    });
  }

  countExec(exec: Exec): void {
    this.#execs++;
    const add = ({ stdoutBytes, stderrBytes }: { readonly stdoutBytes: number; readonly stderrBytes: number }) => {
      this.#outputBytes += stdoutBytes + stderrBytes;
    };
    exec.result.then(add, () => undefined);
  }

  render(sandboxes: Pick<Sandboxes, 'list'>): string {
    const states = new Map([
      ['starting', 0],
      ['running', 0],
      ['ending', 0],
    ]);
    for (const { state } of sandboxes.list()) states.set(state, (states.get(state) ?? 0) + 1);
    return [
      family('sallyport_sandboxes', 'gauge', 'Sandboxes that have not ended, by state.', labelled('state', states)),
      family('sallyport_sandboxes_created_total', 'counter', 'Sandboxes created by the API.', [['', this.#created]]),
      family('sallyport_sandbox_ends_total', 'counter', 'Ends by reason.', labelled('reason', this.#ends)),
      family('sallyport_execs_total', 'counter', 'Commands started by the API.', [['', this.#execs]]),
      family('sallyport_output_bytes_total', 'counter', 'Output of ended commands.', [['', this.#outputBytes]]),
      family('process_resident_memory_bytes', 'gauge', 'Memory of the daemon.', [['', process.memoryUsage.rss()]]),
    ].join('');
  }
}

type Sample = readonly [labels: string, value: number];

function labelled(name: string, values: ReadonlyMap<string, number>): Sample[] {
  return [...values].map(([value, count]) => [`{${name}="${value}"}`, count]);
}

function family(name: string, type: string, help: string, samples: readonly Sample[]): string {
  const lines = samples.map(([labels, value]) => `${name}${labels} ${value}\n`);
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`;
}
