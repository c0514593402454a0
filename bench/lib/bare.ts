/**
 * The floor: an OCI runtime alone. Takes the configuration that a live sandbox was started with, changes only the command
 * (and the user, as init would), and runs it in a mount namespace in which the image's overlay is mounted already.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Api, home } from './daemon.ts';

interface OciConfig {
  process: { args: string[]; user: { uid: number; gid: number } };
  root: { path: string };
  mounts: object[];
  linux: { cgroupsPath: string; uidMappings: { hostID: number }[]; namespaces: { type: string; path?: string }[] };
}

export class BareRuntime {
  /** The unpacked image, for peers that bring their own mounts. */
  readonly image: string;
  readonly #folder: string;
  readonly #runtime: 'crun' | 'runc';
  readonly #holder: ChildProcess;
  #count = 0;

  private constructor(folder: string, runtime: 'crun' | 'runc', holder: ChildProcess) {
    this.#folder = folder;
    this.#runtime = runtime;
    this.#holder = holder;
    this.image = baseImage();
  }

  static async open(api: Api, runtime: 'crun' | 'runc'): Promise<BareRuntime> {
    const id = await api.create({ class: 'analysis', limits: { pids: 64 } });
    const config = JSON.parse(readFileSync(join(home, 'run/boxes', id, 'config.json'), 'utf8')) as OciConfig;
    await api.destroy(id);
    const folder = mkdtempSync(join(tmpdir(), `sallyport-bench-${runtime}-`));
    chmodSync(folder, 0o711);
    config.process.args = ['/usr/bin/node', '-v'];
    config.process.user = { uid: 1000, gid: 1000 };
    config.root.path = join(folder, 'rootfs');
    // the runtime makes what our launcher brings along: the network namespace and its sysfs
    config.linux.namespaces = config.linux.namespaces.map(({ type }) => ({ type }));
    config.mounts.push({
      destination: '/sys',
      type: 'sysfs',
      source: 'sysfs',
      options: ['nosuid', 'noexec', 'nodev', 'ro'],
    });
    config.linux.cgroupsPath = `/sallyport-bench-${runtime}`;
    writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
    const base = config.linux.uidMappings[0]?.hostID ?? 0;
    const holder = await mountHolder(folder, base);
    return new BareRuntime(folder, runtime, holder);
  }

  /** One `run` in the prepared namespace. @returns milliseconds */
  run(): number {
    const began = performance.now();
    const command = ['-t', String(this.#holder.pid), '-m', '--', this.#runtime, ...this.#arguments()];
    const { status, stdout, stderr } = spawnSync('nsenter', command, { encoding: 'utf8' });
    const took = performance.now() - began;
    if (status !== 0 || !stdout.startsWith('v')) throw new Error(`bare ${this.#runtime}: ${status} ${stderr}`);
    return took;
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#holder.once('exit', resolve));
    this.#holder.kill('SIGKILL');
    await ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #arguments(): string[] {
    this.#count++;
    const manager = this.#runtime === 'crun' ? ['--cgroup-manager=cgroupfs'] : [];
    return [
      ...manager,
      '--root',
      join(this.#folder, 'state'),
      'run',
      '--bundle',
      this.#folder,
      `bare-${process.pid}-${this.#count}`,
    ];
  }
}

/** A process that keeps a private mount namespace with the image mounted; it dies with the bench. */
async function mountHolder(folder: string, base: number): Promise<ChildProcess> {
  for (const name of ['rootfs', 'scratch', 'state']) mkdirSync(join(folder, name));
  chownSync(join(folder, 'rootfs'), base, base);
  const launch = new URL('../../../native/build/launch', import.meta.url).pathname;
  const lowers = imageLowers().flatMap((lower) => ['--lower', lower]);
  const holder = spawn(
    launch,
    [
      ...['--target', join(folder, 'rootfs'), '--scratch', join(folder, 'scratch'), '--map', `${base}:65536`],
      ...['--upper-tmpfs', '268435456:50000', ...lowers, '--nosuid', '--drop-mount', '/sys/fs/cgroup/unified'],
      ...['--', 'sh', '-c', 'echo ready; exec sleep 3600'],
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  await new Promise((resolve, reject) => {
    holder.once('exit', () => reject(new Error('the mount holder ended')));
    holder.stdout?.once('data', resolve);
  });
  return holder;
}

function baseImage(): string {
  const index = JSON.parse(readFileSync(join(home, 'images/index.json'), 'utf8')) as {
    images: Record<string, { digest: string }>;
  };
  const digest = index.images['base']?.digest.replace('sha256:', '');
  if (digest === undefined) throw new Error('the base image is not built: run scripts/setup');
  return join(home, 'images', digest, 'rootfs');
}

function imageLowers(): string[] {
  const skeletons = readdirSync(join(home, 'skeleton')).map((name) => join(home, 'skeleton', name));
  return [...skeletons.slice(0, 1), baseImage()];
}
