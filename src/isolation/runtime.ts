/** The OCI runtimes a driver can use, as data: how each is found, asked for its version and told to start a box. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { SallyportError } from '../errors/error.ts';
import type { BoxFolder } from './box-folder.ts';

const run = promisify(execFile);
const versionDeadlineMs = 10_000;

export type RuntimeName = 'crun' | 'runc';

export interface OciRuntime {
  readonly name: RuntimeName;
  /** crun 1.8 refuses a host whose cgroup2 tree hangs beside v1 controllers; runc takes it as it is. */
  readonly refusesHybridCgroups: boolean;
  runArguments(folder: BoxFolder): string[];
}

export const runtimes: Readonly<Record<RuntimeName, OciRuntime>> = {
  crun: {
    name: 'crun',
    refusesHybridCgroups: true,
    runArguments: (folder) => ['crun', '--cgroup-manager=cgroupfs', ...sharedArguments(folder)],
  },
  runc: { name: 'runc', refusesHybridCgroups: false, runArguments: (folder) => ['runc', ...sharedArguments(folder)] },
};

function sharedArguments(folder: BoxFolder): string[] {
  return [
    ...['--root', folder.runtimeState],
    ...['run', '--detach', '--bundle', folder.path, '--pid-file', folder.pidFile],
    folder.id,
  ];
}

/** First line of `<runtime> --version`, for instance `1.8.1`. @throws SallyportError `runtime_missing` */
export async function runtimeVersion(name: RuntimeName): Promise<string> {
  const output = await run(name, ['--version'], { timeout: versionDeadlineMs }).catch((error: unknown) => {
    const why = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'not found on PATH' : String(error);
    throw new SallyportError('runtime_missing', `Cannot use the runtime ${name}: ${why}`, { cause: error });
  });
  return /version (\S+)/.exec(output.stdout)?.[1] ?? 'unknown';
}
