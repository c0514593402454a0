/**
 * The image `host` of the tier `process`: the host's own read-only /usr, and around it a root of our making. Of the
 * host's /etc only the loader's cache and those alternatives that lead into /usr are seen, nothing of its /home,
 * /root, /opt or /var. It is not reproducible, and its digest changes when the host's software does.
 */
import { lstatSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join, posix } from 'node:path';
import { digestOf } from '../digest/digest.ts';
import { SallyportError } from '../errors/error.ts';
import { errnoOf } from './errno.ts';
import { type Skeleton, type SkeletonEntry, skeletonDigest } from './skeleton.ts';

/** What is taken over from a host; `root` is `/` outside of tests. */
export interface HostFacts {
  /** `bin` → `usr/bin` and so on, as on the host. */
  readonly rootLinks: ReadonlyMap<string, string>;
  /** Names in /etc/alternatives → targets below /usr. */
  readonly alternatives: ReadonlyMap<string, string>;
  /** /etc/ld.so.cache: finds libraries outside the loader's default folders. Absent: the loader does without. */
  readonly loaderCache?: Buffer;
  /** The host's public roots, in one file: what is sealed is verified inside. */
  readonly roots?: Buffer;
  /** Text of os-release. */
  readonly release: string;
  /** Newest change of the package database: the host's software is a different one afterwards. */
  readonly packagesChangedMs: number;
}

const linkNames = ['bin', 'lib', 'lib32', 'lib64', 'libx32', 'sbin'];
const required = ['bin', 'lib', 'sbin'];

export const hostUser = { uid: 1000, gid: 1000, home: '/home/user' } as const;
export const hostBinds = [{ source: '/usr', target: 'usr' }] as const;

const rootsFile = 'etc/ssl/certs/ca-certificates.crt';

/** @throws SallyportError `image_missing` on a host whose /bin is not in /usr */
export function readHostFacts(root = '/'): HostFacts {
  const rootLinks = linksIn(root, linkNames, (target) => isBelowUsr(posix.resolve('/', target)));
  const missing = required.filter((name) => !rootLinks.has(name));
  if (missing.length > 0) {
    const message = `Cannot use the image host: /${missing.join(', /')} is not a link into /usr (a merged /usr is needed)`;
    throw new SallyportError('image_missing', message);
  }
  const folder = join(root, 'etc/alternatives');
  const loaderCache = readOptional(join(root, 'etc/ld.so.cache'));
  const roots = readOptional(join(root, rootsFile));
  return {
    rootLinks,
    alternatives: linksIn(folder, namesIn(folder), isBelowUsr),
    ...(loaderCache === undefined ? {} : { loaderCache }),
    ...(roots === undefined ? {} : { roots }),
    release: (readOptional(join(root, 'usr/lib/os-release')) ?? Buffer.from('unknown')).toString('utf8'),
    packagesChangedMs: changedMs(join(root, 'var/lib/dpkg/status')),
  };
}

/** Cheap to compute: tells whether {@link readHostFacts} would say something else. */
export function hostVersion(root = '/'): string {
  const watched = ['etc/alternatives', 'etc/ld.so.cache', rootsFile, 'usr/lib/os-release', 'var/lib/dpkg/status'];
  return watched.map((path) => changedMs(join(root, path))).join(':');
}

export function hostSkeleton(facts: HostFacts): Skeleton {
  return [
    ...[...facts.rootLinks].map(([path, target]) => link(path, target)),
    folder('dev'),
    folder('etc'),
    ...[...etcFiles].map(([path, content]): SkeletonEntry => ({ kind: 'file', path, mode: 0o644, content })),
    ...(facts.loaderCache === undefined
      ? []
      : [{ kind: 'file', path: 'etc/ld.so.cache', mode: 0o644, content: facts.loaderCache } as const]),
    ...(facts.roots === undefined
      ? []
      : [
          folder('etc/ssl'),
          folder('etc/ssl/certs'),
          { kind: 'file', path: rootsFile, mode: 0o644, content: facts.roots } as const,
        ]),
    folder('etc/alternatives'),
    ...[...facts.alternatives].map(([name, target]) => link(`etc/alternatives/${name}`, target)),
    folder('home'),
    { kind: 'folder', path: 'home/user', mode: 0o755, owner: hostUser.uid },
    folder('proc', 0o555),
    folder('root', 0o700),
    folder('run'),
    folder('sys', 0o555),
    folder('tmp', 0o1777),
    folder('usr'),
    folder('var'),
    folder('var/tmp', 0o1777),
  ];
}

/** `sha256:<hex>` over the skeleton and what is known of the host's /usr. */
export function hostDigest(facts: HostFacts): string {
  const { release, packagesChangedMs } = facts;
  const described = {
    note: 'host image: not reproducible',
    skeleton: skeletonDigest(hostSkeleton(facts)),
    release,
    packagesChangedMs,
  };
  return `sha256:${digestOf(described)}`;
}

/** Names that programs look up; numbers of nobody on the host. */
const etcFiles: ReadonlyMap<string, string> = new Map([
  [
    'etc/passwd',
    'root:x:0:0:root:/root:/bin/bash\n' +
      'user:x:1000:1000::/home/user:/bin/bash\n' +
      'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n',
  ],
  ['etc/group', 'root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n'],
  [
    'etc/nsswitch.conf',
    'passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n',
  ],
]);

function folder(path: string, mode = 0o755): SkeletonEntry {
  return { kind: 'folder', path, mode };
}

function link(path: string, target: string): SkeletonEntry {
  return { kind: 'symlink', path, target };
}

/** A target such as /usr/../etc/shadow is none. */
function isBelowUsr(target: string): boolean {
  return posix.normalize(target).startsWith('/usr/');
}

function linksIn(folder: string, names: readonly string[], accepts: (target: string) => boolean): Map<string, string> {
  const links = new Map<string, string>();
  for (const name of [...names].sort()) {
    const target = linkTarget(join(folder, name));
    if (target !== undefined && accepts(target)) links.set(name, target);
  }
  return links;
}

function linkTarget(path: string): string | undefined {
  return optional(() => (lstatSync(path).isSymbolicLink() ? readlinkSync(path) : undefined));
}

function namesIn(folder: string): string[] {
  return optional(() => readdirSync(folder)) ?? [];
}

function readOptional(file: string): Buffer | undefined {
  return optional(() => readFileSync(file));
}

function changedMs(path: string): number {
  return optional(() => statSync(path).mtimeMs) ?? 0;
}

function optional<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return undefined;
    throw thrown;
  }
}
