/** The smallest Grant that still runs `true`: what a tier is exercised with. */
import type { Grant, Tier } from '../admission/grant.ts';
import type { Image } from '../workspace/types.ts';

export function exerciseGrant(tier: Tier, image: Pick<Image, 'name' | 'digest'>): Grant {
  return {
    version: 1,
    class: 'exercise',
    policySha256: '0'.repeat(64),
    isolation: { tier, root: false },
    image: { name: image.name, digest: image.digest },
    files: { workdir: '/', inputBytes: 0, inputFiles: 0 },
    network: { mode: 'deny' },
    packages: { mode: 'none' },
    secrets: { mode: 'none' },
    limits: {
      cpuShares: 1024,
      cpuMillis: 1000,
      memoryBytes: 64 * 1024 * 1024,
      pids: 32,
      openFiles: 256,
      diskBytes: 4 * 1024 * 1024,
      inodes: 256,
      execMs: 20_000,
      outputBytes: 65_536,
    },
    env: {},
    artifacts: { bytes: 0, files: 0 },
    tools: [],
    lifetime: { wallMs: 20_000, idleMs: 20_000 },
  };
}
