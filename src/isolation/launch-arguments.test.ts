import { describe, expect, it } from 'vitest';
import type { Image } from '../workspace/types.ts';
import { boxFolder } from './box-folder.ts';
import { type LaunchInput, launchArguments } from './launch-arguments.ts';
import { runtimes } from './runtime.ts';

const folder = boxFolder('/home', 'sb-1');
const image: Image = {
  name: 'base',
  digest: 'sha256:0',
  lowers: ['/skeleton', '/rootfs'],
  binds: [],
  user: { uid: 1000, gid: 1000, home: '/home/user' },
};
const input: LaunchInput = {
  folder,
  parentPid: 42,
  mountPoints: { rootfs: '/run/rootfs', scratch: '/run/scratch', netns: '/run/netns' },
  image,
  upper: { kind: 'tmpfs', bytes: 1024, inodes: 16 },
  uids: { base: 1_879_048_192, count: 65_536 },
  runtime: runtimes.crun,
  allowSetuid: false,
};

describe('the launcher is told', () => {
  it('the layers, topmost first, the upper, the id map, and then the runtime', () => {
    expect(launchArguments(input).join(' ')).toBe(
      '--target /run/rootfs --scratch /run/scratch --parent 42 --netns 3:/run/netns --map 1879048192:65536 ' +
        '--upper-tmpfs 1024:16 --lower /skeleton --lower /rootfs --nosuid -- crun --cgroup-manager=cgroupfs ' +
        '--root /home/run/boxes/sb-1/runtime run --detach --bundle /home/run/boxes/sb-1 ' +
        '--pid-file /home/run/boxes/sb-1/pid sb-1',
    );
  });

  it('of setuid programs only when the Grant has root', () => {
    expect(launchArguments({ ...input, allowSetuid: true })).not.toContain('--nosuid');
  });

  it('of host folders only those of the image and the staged inputs', () => {
    const binds = [{ source: '/usr', target: 'usr' }];
    const words = launchArguments({ ...input, image: { ...image, binds }, inputs: folder.inputs });
    const bound = words.filter((_, index) => words[index - 1] === '--bind');
    expect(bound).toEqual(['/usr:usr', '/home/run/boxes/sb-1/inputs:inputs']);
  });

  it('of the ext4 file where the disk is large, and of the mount to hide from crun', () => {
    const upper = { kind: 'ext4', bytes: 1, inodes: 1, file: '/home/run/boxes/sb-1/disk' } as const;
    const words = launchArguments({ ...input, upper, hideMount: '/sys/fs/cgroup/unified' }).join(' ');
    expect(words).toContain('--upper-ext4 /home/run/boxes/sb-1/disk');
    expect(words).toContain('--drop-mount /sys/fs/cgroup/unified --');
  });
});
