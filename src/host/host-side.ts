/** The host side in this process: workspace and isolation behind {@link HostSide}. Needs root. */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { type Tier, tiers } from '../admission/grant.ts';
import { SallyportError } from '../errors/error.ts';
import { makeHostFolders } from '../isolation/host-folders.ts';
import { openOciDriver } from '../isolation/oci-driver.ts';
import { reconcile } from '../isolation/reconcile.ts';
import type { RuntimeName } from '../isolation/runtime.ts';
import { openNetnsPool } from '../isolation/trap/netns-pool.ts';
import type { Driver } from '../isolation/types.ts';
import { openCgroupTree } from '../linux/cgroup.ts';
import { type ImageStore, openImageStore } from '../workspace/image-store.ts';
import type { HostSide, StartedBox, StartRequest } from './types.ts';

export interface HostSideOptions {
  readonly home: string;
  readonly runtime?: RuntimeName;
  /** Network namespaces that wait ready; default none, each is made when a sandbox starts. */
  readonly preparedNetworks?: number;
}

/** @throws SallyportError `not_root` */
export function openHostSide(options: HostSideOptions): HostSide {
  if (process.getuid?.() !== 0) throw new SallyportError('not_root', 'Cannot open the host side: not running as root');
  mkdirSync(options.home, { recursive: true, mode: 0o700 });
  // one home is one home, by whatever link it is reached
  const home = realpathSync(options.home);
  const folders = makeHostFolders();
  const images = openImageStore(home);
  const cgroups = openCgroupTree(homeName(home));
  const netnsPool = openNetnsPool(options.preparedNetworks ?? 0);
  netnsPool.fill();
  const drivers = new Map<Tier, Driver>(
    tiers.map((tier) => [
      tier,
      openOciDriver({ home, tier, runtime: options.runtime ?? 'crun', cgroups, folders, netnsPool }),
    ]),
  );

  return {
    images: async () => images.digests(),
    listImages: () => images.list(),
    buildImage: (name, options) => images.build(name, options),
    exercise: async (tier) => {
      try {
        return await driverOf(drivers, tier).exercise(await images.resolve(imageNameOf(tier)));
      } catch (error) {
        return { tier, available: false, reason: error instanceof Error ? error.message : String(error) };
      }
    },
    start: (request) => startIn(images, driverOf(drivers, request.grant.isolation.tier), request),
    reconcile: () => reconcile({ home, cgroups, folders }),
    pidMax: () => Number(readFileSync('/proc/sys/kernel/pid_max', 'utf8')),
    close: async () => {
      await netnsPool.close();
      await cgroups.removeEmptyParents();
    },
  };
}

/** The process tier has one image, the host's own /usr; the container tier is exercised with the base image. */
function imageNameOf(tier: Tier): string {
  return tier === 'process' ? 'host' : 'base';
}

function driverOf(drivers: ReadonlyMap<Tier, Driver>, tier: Tier): Driver {
  const driver = drivers.get(tier);
  if (driver !== undefined) return driver;
  throw new SallyportError(
    'tier_unavailable',
    `Cannot start a sandbox: this release has no driver for the tier ${tier}`,
  );
}

/** Daemons of different homes never meet in one cgroup folder. */
function homeName(home: string): string {
  return createHash('sha256').update(home).digest('hex').slice(0, 12);
}

async function startIn(images: ImageStore, driver: Driver, { id, grant, inputs }: StartRequest): Promise<StartedBox> {
  const image = await images.resolve(grant.image.name);
  if (image.digest === grant.image.digest)
    return { box: await driver.start({ id, grant, image, inputs }), user: image.user };
  const message = `Cannot start sandbox ${id}: image ${image.name} is now ${image.digest}, the Grant says ${grant.image.digest}`;
  throw new SallyportError('image_missing', message);
}
