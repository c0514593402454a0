/**
 * The command line of `native/launch`: a pure rendering of how a box's root is put together and which runtime is
 * started in it. Every path is ours; nothing of a request appears here.
 */
import type { Image, Upper } from '../workspace/types.ts';
import type { BoxFolder } from './box-folder.ts';
import type { HostFolders } from './host-folders.ts';
import type { OciRuntime } from './runtime.ts';
import type { UidRange } from './uid-range.ts';

export interface LaunchInput {
  readonly folder: BoxFolder;
  readonly mountPoints: Pick<HostFolders, 'rootfs' | 'scratch' | 'netns'>;
  readonly image: Image;
  readonly upper: Upper;
  readonly uids: Pick<UidRange, 'base' | 'count'>;
  readonly runtime: OciRuntime;
  /** Without whom the launcher does not start, and with whom it ends. */
  readonly parentPid: number;
  /** Host folder shown at /inputs. */
  readonly inputs?: string;
  /** setuid programs in the image work: only for a Grant with root. */
  readonly allowSetuid: boolean;
  /** The cgroup2 tree of a hybrid host, hidden from a runtime that refuses it. */
  readonly hideMount?: string;
}

/** Where the launcher finds the sandbox's network namespace among its fds. */
export const netnsFd = 3;

export function launchArguments(input: LaunchInput): string[] {
  const { folder, mountPoints, runtime } = input;
  return [
    ...['--target', mountPoints.rootfs, '--scratch', mountPoints.scratch],
    ...['--parent', String(input.parentPid)],
    ...['--netns', `${netnsFd}:${mountPoints.netns}`],
    ...['--map', `${input.uids.base}:${input.uids.count}`],
    ...upperArguments(input.upper),
    ...input.image.lowers.flatMap((lower) => ['--lower', lower]),
    ...input.image.binds.flatMap((bind) => ['--bind', `${bind.source}:${bind.target}`]),
    ...(input.inputs === undefined ? [] : ['--bind', `${input.inputs}:inputs`]),
    ...(input.allowSetuid ? [] : ['--nosuid']),
    ...(input.hideMount === undefined ? [] : ['--drop-mount', input.hideMount]),
    '--',
    ...runtime.runArguments(folder),
  ];
}

function upperArguments(upper: Upper): string[] {
  if (upper.kind === 'tmpfs') return ['--upper-tmpfs', `${upper.bytes}:${upper.inodes}`];
  return ['--upper-ext4', upper.file];
}
