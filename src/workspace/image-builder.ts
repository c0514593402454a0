/**
 * Builds an image from its recipe: mmdebstrap → tar → digest → unpacked rootfs, in folders named `*.partial` that become
 * the image by one rename. Killed at any point it leaves nothing that the next build does not remove. The same
 * recipe and packages give the same bytes.
 */
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { digestOf, sha256Hex } from '../digest/digest.ts';
import { SallyportError } from '../errors/error.ts';
import { acquireLock, type Lock } from '../store/lock.ts';
import { syncFolder } from './durable.ts';
import { requireFreeBytes } from './free-space.ts';
import { hostAptOptions, hostSources, proxyEnvironment } from './host-apt.ts';
import {
  type ImageEntry,
  type ImageIndex,
  imageFolder,
  imagesFolder,
  readImageIndex,
  writeImageIndex,
} from './image-index.ts';
import { readManifest, writeManifest } from './image-manifest.ts';
import { confined, mmdebstrapArguments, mmdebstrapEnvironment, scratchMountPoint } from './mmdebstrap.ts';
import { formatPackageList, type PackageList, packageDifferences, parsePackageList } from './package-list.ts';
import { type Recipe, readRecipe } from './recipe.ts';
import { readRecipeLock, writeRecipeLock } from './recipe-lock.ts';
import { runProgram } from './run-program.ts';

export interface BuildOptions {
  /** A difference from the committed lock is an error. */
  readonly locked?: boolean;
  /** Writes what was built into the lock files beside the recipe, for a developer to commit. */
  readonly updateLock?: boolean;
  /** Called with one line of text at a time. */
  readonly onProgress?: (line: string) => void;
  readonly signal?: AbortSignal;
}

export interface BuildReport {
  readonly name: string;
  readonly digest: string;
  /** False when an image of this recipe was here already. */
  readonly built: boolean;
  /** What differs from the committed lock, one sentence each. */
  readonly lockDifferences: readonly string[];
  readonly elapsedMs: number;
}

const buildDeadlineMs = 20 * 60 * 1000;
const stepDeadlineMs = 5 * 60 * 1000;
const lockPollMs = 500;
const shownDifferences = 10;
/** The tar, the root it is made from and the root it becomes: measured 1.4 GB. */
const neededBytes = 2 * 1024 * 1024 * 1024;

/** One build, with what its steps share. */
interface Build {
  readonly home: string;
  readonly recipe: Recipe;
  readonly recipeDigest: string;
  readonly architecture: string;
  readonly what: string;
  readonly say: (line: string) => void;
  readonly signal?: AbortSignal;
}

/** @throws SallyportError `image_missing`, `host_disk_full`, `deadline` */
export async function buildImage(home: string, name: string, options: BuildOptions = {}): Promise<BuildReport> {
  const began = performance.now();
  const build = await planBuild(home, name, options);
  await mkdir(imagesFolder(home), { recursive: true, mode: 0o700 });
  const lock = await waitForLock(build);
  try {
    const locked = options.locked ?? false;
    const known = knownEntry(build);
    // one more try where it must not differ: the mirrors may have what the lock names by now
    const isUsable = known !== undefined && !(locked && known.lockDifferences.length > 0);
    if (isUsable) build.say(`image ${name}: ${known.digest} is built from this recipe already`);
    const entry = isUsable ? known : await makeImage(build, locked);
    if (options.updateLock ?? false) updateLock(build, entry);
    const { digest } = entry;
    const lockDifferences = sayDifferences(build, entry);
    return { name, digest, built: !isUsable, lockDifferences, elapsedMs: performance.now() - began };
  } finally {
    lock.release();
  }
}

async function planBuild(home: string, name: string, options: BuildOptions): Promise<Build> {
  const recipe = readRecipe(name);
  const what = `Cannot build image ${name}`;
  const architecture = (await runProgram(what, ['dpkg', '--print-architecture'], step)).trim();
  return {
    home,
    recipe,
    recipeDigest: recipeDigestOf(recipe, architecture),
    architecture,
    what,
    say: options.onProgress ?? (() => undefined),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  };
}

const step = { code: 'image_missing', deadlineMs: stepDeadlineMs } as const;

/** Over the command itself, so that a change of our options rebuilds the image too. */
function recipeDigestOf(recipe: Recipe, architecture: string): string {
  const place = { ...recipe, customize: 'customize' };
  return digestOf({
    command: mmdebstrapArguments(place, architecture, 'tar', []),
    environment: mmdebstrapEnvironment(recipe),
    customize: sha256Hex(readFileSync(recipe.customize)),
  });
}

/** A second build waits for the first and then finds its image. */
async function waitForLock({ home, what, say, signal }: Build): Promise<Lock> {
  const deadline = performance.now() + buildDeadlineMs;
  for (let tries = 0; performance.now() < deadline; tries += 1) {
    const lock = acquireLock(join(imagesFolder(home), 'build.lock'));
    if (lock !== undefined) return lock;
    if (tries === 0) say('another build is running; waiting for it');
    await sleep(lockPollMs, undefined, { signal });
  }
  throw new SallyportError('deadline', `${what}: another build did not end in ${buildDeadlineMs} ms`);
}

/** The image of this recipe that is here, compared with the lock as it is now. */
function knownEntry(build: Build): ImageEntry | undefined {
  const { home, recipe, recipeDigest, say } = build;
  const entry = indexOrEmpty(home, say).get(recipe.name);
  if (entry?.recipeDigest !== recipeDigest) return undefined;
  const manifest = readManifest(home, entry.digest);
  if (manifest === undefined || !existsSync(join(imageFolder(home, entry.digest), 'rootfs'))) return undefined;
  const current = { ...entry, lockDifferences: differencesFrom(build, entry.digest, manifest.packages) };
  if (current.lockDifferences.join() !== entry.lockDifferences.join()) recordEntry(build, current);
  return current;
}

function updateLock(build: Build, { digest, architecture }: ImageEntry): void {
  const manifest = readManifest(build.home, digest);
  if (manifest === undefined) return;
  writeRecipeLock(build.recipe.name, manifest.packages, architecture, digest);
}

function sayDifferences(build: Build, { digest }: ImageEntry): readonly string[] {
  const entry = knownEntry(build);
  const differences = entry?.digest === digest ? entry.lockDifferences : [];
  for (const line of differences.slice(0, shownDifferences)) build.say(`differs from the lock: ${line}`);
  const more = differences.length - shownDifferences;
  if (more > 0) build.say(`differs from the lock: ${more} more packages; see manifest.json of the image`);
  return differences;
}

/** A damaged index is replaced by what is built now. */
function indexOrEmpty(home: string, say: (line: string) => void): ImageIndex {
  try {
    return readImageIndex(home);
  } catch (thrown) {
    say(thrown instanceof Error ? thrown.message : String(thrown));
    return new Map();
  }
}

async function makeImage(build: Build, locked: boolean): Promise<ImageEntry> {
  const { home, recipe, say, what } = build;
  await removePartials(home);
  await requireFreeBytes(imagesFolder(home), neededBytes, `build image ${recipe.name}`);
  const work = join(imagesFolder(home), 'work.partial');
  try {
    const tar = await makeTar(build, work);
    const digest = `sha256:${await fileSha256(tar)}`;
    say(`image ${recipe.name}: ${digest}; unpacking`);
    const partial = `${imageFolder(home, digest)}.partial`;
    await unpack(build, tar, partial);
    const packages = await packagesIn(build, join(partial, 'rootfs'));
    const lockDifferences = differencesFrom(build, digest, packages);
    if (locked && lockDifferences.length > 0) {
      throw new SallyportError(
        'image_missing',
        `${what}: it differs from the lock in ${lockDifferences.length} places:\n${lockDifferences.slice(0, shownDifferences).join('\n')}`,
      );
    }
    return await publish(build, { digest, packages, lockDifferences, partial });
  } finally {
    await removePartials(home);
  }
}

async function removePartials(home: string): Promise<void> {
  const folder = imagesFolder(home);
  for (const name of readdirSync(folder).filter((entry) => entry.endsWith('.partial'))) {
    await rm(join(folder, name), { recursive: true, force: true });
  }
}

async function makeTar({ home, recipe, architecture, what, say, signal }: Build, work: string): Promise<string> {
  const scratch = join(work, 'scratch');
  const tar = join(work, 'rootfs.tar');
  await mkdir(scratch, { recursive: true });
  await chmod(scratch, 0o755);
  const command = mmdebstrapArguments(recipe, architecture, tar, await hostAptOptions(what));
  const mountPoint = scratchMountPoint([home, recipe.customize]);
  await runProgram(what, confined(command, scratch, mountPoint), {
    code: 'image_missing',
    deadlineMs: buildDeadlineMs,
    env: { ...proxyEnvironment(), ...mmdebstrapEnvironment(recipe) },
    stdin: hostSources(recipe.suite, what),
    onLine: (line) => say(`image ${recipe.name}: ${line}`),
    ...(signal === undefined ? {} : { signal }),
  });
  await rm(scratch, { recursive: true, force: true });
  return tar;
}

async function fileSha256(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file, { highWaterMark: 1024 * 1024 })) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

async function unpack({ what }: Build, tar: string, partial: string): Promise<void> {
  const rootfs = join(partial, 'rootfs');
  await mkdir(rootfs, { recursive: true, mode: 0o700 });
  const command = [
    'tar',
    '--extract',
    '--numeric-owner',
    '--same-owner',
    '--same-permissions',
    '--xattrs',
    '--xattrs-include=*',
  ];
  await runProgram(what, [...command, '--file', tar, '--directory', rootfs], step);
}

async function packagesIn({ what }: Build, rootfs: string): Promise<PackageList> {
  const command = [
    'dpkg-query',
    `--admindir=${rootfs}/var/lib/dpkg`,
    '--show',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg-query's own placeholders
    '--showformat=${Package}=${Version}\\n',
  ];
  return parsePackageList(await runProgram(what, command, step));
}

function differencesFrom({ recipe, architecture }: Build, digest: string, packages: PackageList): string[] {
  const lock = readRecipeLock(recipe.name);
  const differences = packageDifferences(lock.packages, packages);
  if (differences.length > 0) return differences;
  const locked = lock.digests.get(architecture);
  return locked === digest
    ? []
    : [`the packages are the same, the digest is ${digest} here, ${locked ?? 'none'} in the lock`];
}

interface MadeImage {
  readonly digest: string;
  readonly packages: PackageList;
  readonly lockDifferences: string[];
  readonly partial: string;
}

/** On disk first, then visible: manifest, sync, rename, index. */
async function publish(build: Build, { digest, packages, lockDifferences, partial }: MadeImage): Promise<ImageEntry> {
  const { home, recipe, recipeDigest, architecture, what } = build;
  const { uid, gid, home: userHome } = recipe.user;
  const list = formatPackageList(packages);
  const entry: ImageEntry = {
    digest,
    recipeDigest,
    architecture,
    builtAt: new Date().toISOString(),
    builder: (await runProgram(what, ['mmdebstrap', '--version'], step)).trim(),
    user: { uid, gid, home: userHome },
    packages: { count: packages.size, sha256: sha256Hex(list) },
    lockDifferences,
  };
  writeManifest(partial, { name: recipe.name, entry, packages });
  await runProgram(what, ['sync', '--file-system', partial], step);
  // the same bytes are here already when only the recipe's text changed
  if (!existsSync(imageFolder(home, digest))) await rename(partial, imageFolder(home, digest));
  syncFolder(imagesFolder(home));
  recordEntry(build, entry);
  return entry;
}

function recordEntry({ home, recipe, say }: Build, entry: ImageEntry): void {
  writeImageIndex(home, new Map([...indexOrEmpty(home, say), [recipe.name, entry]]));
}
