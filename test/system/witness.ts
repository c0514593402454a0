/** Oracle O4: a second sandbox with a heartbeat every 10 ms and a file of its own; what an attack does to it is measured. */
import type { Exec, Sandbox } from '../../src/sandbox/types.ts';

const program = `
import hashlib, signal, sys, time
open("witness", "wb").write(b"w" * 1048576)
before = hashlib.sha256(open("witness", "rb").read()).hexdigest()
worst, last, stop = 0.0, time.monotonic(), []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
print("beating", flush=True)
while not stop:
    time.sleep(0.01)
    now = time.monotonic()
    worst, last = max(worst, now - last), now
after = hashlib.sha256(open("witness", "rb").read()).hexdigest()
print(f"{worst * 1000:.0f} {before == after}", flush=True)
`;

export interface Testimony {
  /** Longest pause between two heartbeats. */
  readonly worstMs: number;
  readonly isUnchanged: boolean;
}

export interface Witness {
  testify(): Promise<Testimony>;
}

/** @returns once the heart beats */
export async function callWitness(sandbox: Sandbox): Promise<Witness> {
  const exec = sandbox.exec({ argv: ['/usr/bin/python3', '-c', program], timeoutMs: 50_000 });
  let text = '';
  let beating: () => void = () => undefined;
  const started = new Promise<void>((resolve) => {
    beating = resolve;
  });
  const read = async (): Promise<void> => {
    for await (const { data } of exec.output) {
      text += data.toString();
      if (text.includes('beating')) beating();
    }
  };
  const finished = read();
  await Promise.race([started, exec.result]);
  return { testify: () => testify(exec, finished, () => text) };
}

async function testify(exec: Exec, finished: Promise<void>, text: () => string): Promise<Testimony> {
  exec.signal('SIGTERM');
  await finished;
  const match = /^(\d+) (True|False)$/m.exec(text());
  if (match === null)
    throw new Error(`O4: the witness died: ${JSON.stringify(text())} ${JSON.stringify(await exec.result)}`);
  return { worstMs: Number(match[1]), isUnchanged: match[2] === 'True' };
}
