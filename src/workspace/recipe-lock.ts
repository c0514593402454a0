/**
 * The lock of a recipe: what the last committed build gave. `packages.lock` has one `name=version` a line, `digest.lock`
 * the image's digest for each Debian architecture. A build is compared with it; it does not choose versions.
 */
import { existsSync, readFileSync } from 'node:fs';
import { writeDurably } from './durable.ts';
import { formatPackageList, type PackageList, parsePackageList } from './package-list.ts';
import { recipeFile } from './recipe.ts';

export interface RecipeLock {
  readonly packages: PackageList;
  /** Architecture → `sha256:<hex>`. */
  readonly digests: PackageList;
}

/** A missing file locks nothing. */
export function readRecipeLock(name: string): RecipeLock {
  return { packages: readList(name, 'packages.lock'), digests: readList(name, 'digest.lock') };
}

export function writeRecipeLock(name: string, packages: PackageList, architecture: string, digest: string): void {
  const digests = new Map([...readRecipeLock(name).digests, [architecture, digest]]);
  writeDurably(recipeFile(name, 'packages.lock'), formatPackageList(packages), 0o644);
  writeDurably(recipeFile(name, 'digest.lock'), formatPackageList(digests), 0o644);
}

function readList(name: string, file: string): PackageList {
  const path = recipeFile(name, file);
  return existsSync(path) ? parsePackageList(readFileSync(path, 'utf8')) : new Map();
}
