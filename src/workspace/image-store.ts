/**
 * The images of one home, by name: those built from a recipe, and `host`, which is always there. What is resolved is
 * a list of read-only layers; nothing is copied when a sandbox starts.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SallyportError } from '../errors/error.ts';
import {
  type HostFacts,
  hostBinds,
  hostDigest,
  hostSkeleton,
  hostUser,
  hostVersion,
  readHostFacts,
} from './host-image.ts';
import type { BuildOptions, BuildReport } from './image-builder.ts';
import { imageFolder, readImageIndex } from './image-index.ts';
import { openSandboxSkeleton } from './sandbox-skeleton.ts';
import { makeSkeleton } from './skeleton.ts';
import type { Image } from './types.ts';

export type { BuildOptions, BuildReport } from './image-builder.ts';

export interface ImageSummary {
  readonly name: string;
  readonly digest: string;
  /** ISO 8601; absent for `host`, which nobody built. */
  readonly builtAt?: string;
  readonly packages?: number;
  readonly lockDifferences: readonly string[];
}

export interface ImageStore {
  /** @throws SallyportError `image_missing`, `native_missing` */
  resolve(name: string): Promise<Image>;
  list(): Promise<readonly ImageSummary[]>;
  /** name → `sha256:<hex>`. @throws SallyportError `image_missing` when the index is damaged */
  digests(): Map<string, string>;
  /** @throws SallyportError `image_missing`, `host_disk_full`, `deadline` */
  build(name: string, options?: BuildOptions): Promise<BuildReport>;
}

const hostImageName = 'host';

/** @param home SALLYPORT_HOME */
export function openImageStore(home: string): ImageStore {
  const skeletons = join(home, 'skeleton');
  const sandboxLayer = openSandboxSkeleton(skeletons);
  const host = openHost();
  return {
    resolve: async (name) => {
      if (name !== hostImageName) return resolveBuilt(home, name, await sandboxLayer());
      const { facts, digest } = host();
      const lowers = [await sandboxLayer(), await makeSkeleton(skeletons, hostSkeleton(facts))];
      return { name, digest, lowers, binds: hostBinds, user: hostUser };
    },
    list: async () => [...hostSummary(host), ...builtSummaries(home)],
    digests: () => new Map([...hostSummary(host), ...builtSummaries(home)].map(({ name, digest }) => [name, digest])),
    // only here: a store that resolves needs neither the YAML parser nor the database
    build: async (name, options) => (await import('./image-builder.ts')).buildImage(home, name, options),
  };
}

function resolveBuilt(home: string, name: string, sandboxLayer: string): Image {
  const entry = readImageIndex(home).get(name);
  if (entry === undefined) throw new SallyportError('image_missing', `Cannot use the image ${name}: it is not built`);
  const rootfs = join(imageFolder(home, entry.digest), 'rootfs');
  if (!existsSync(rootfs)) throw new SallyportError('image_missing', `Cannot use the image ${name}: ${rootfs} is gone`);
  return { name, digest: entry.digest, lowers: [sandboxLayer, rootfs], binds: [], user: entry.user };
}

interface Host {
  readonly facts: HostFacts;
  readonly digest: string;
}

/** Reads the host again only when it has changed. */
function openHost(): () => Host {
  let known: { readonly version: string; readonly host: Host } | undefined;
  return () => {
    const version = hostVersion();
    if (known?.version === version) return known.host;
    const facts = readHostFacts();
    known = { version, host: { facts, digest: hostDigest(facts) } };
    return known.host;
  };
}

/** Nothing on a host that cannot be one; `resolve` says why. */
function hostSummary(host: () => Host): ImageSummary[] {
  try {
    return [{ name: hostImageName, digest: host().digest, lockDifferences: [] }];
  } catch (thrown) {
    if (thrown instanceof SallyportError) return [];
    throw thrown;
  }
}

function builtSummaries(home: string): ImageSummary[] {
  return [...readImageIndex(home)].map(([name, { digest, builtAt, packages, lockDifferences }]) => ({
    name,
    digest,
    builtAt,
    packages: packages.count,
    lockDifferences,
  }));
}
