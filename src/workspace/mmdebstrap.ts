/** The command that makes the tar of an image, as data. Whatever changes it changes the digest of the recipe. */
import type { Recipe } from './recipe.ts';

/** Documentation in languages and formats that no program reads; licences stay. */
const dpkgOptions = [
  'force-unsafe-io',
  'path-exclude=/usr/share/doc/*',
  'path-exclude=/usr/share/info/*',
  'path-exclude=/usr/share/locale/*',
  'path-exclude=/usr/share/man/*',
  'path-include=/usr/share/doc/*/copyright',
];
const aptOptions = ['APT::Install-Recommends "0"', 'Acquire::Languages "none"'];

/** The sources are read from standard input. */
export function mmdebstrapArguments(
  recipe: Recipe,
  architecture: string,
  tar: string,
  hostAptOptions: readonly string[],
): readonly string[] {
  return [
    'mmdebstrap',
    ...['--mode=root', '--format=tar', `--variant=${recipe.variant}`, `--architectures=${architecture}`],
    // device nodes: the runtime makes the few that a sandbox has
    '--skip=output/dev',
    ...[...aptOptions, ...hostAptOptions].map((option) => `--aptopt=${option}`),
    ...dpkgOptions.map((option) => `--dpkgopt=${option}`),
    `--include=${[...recipe.packages].sort().join(',')}`,
    `--customize-hook=${recipe.customize}`,
    ...[recipe.suite, tar, '-'],
  ];
}

/** Read by `customize`, and by mmdebstrap for every file time. */
export function mmdebstrapEnvironment(recipe: Recipe): Readonly<Record<string, string>> {
  return {
    SOURCE_DATE_EPOCH: String(recipe.sourceDateEpoch),
    USER_NAME: recipe.user.name,
    USER_UID: String(recipe.user.uid),
    USER_GID: String(recipe.user.gid),
    USER_HOME: recipe.user.home,
  };
}

/**
 * Namespaces around a build: its mounts are seen by nobody else, and when we end, however, all of it ends. `scratch` is
 * mounted where apt's own user can reach it, though our folders are closed to everybody.
 */
export function confined(command: readonly string[], scratch: string, mountPoint: string): readonly string[] {
  return [
    ...['setpriv', '--pdeathsig', 'KILL', '--'],
    ...['unshare', '--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child=KILL', '--mount-proc', '--'],
    ...['sh', '-ec', 'mount --bind "$1" "$2"; export TMPDIR="$2"; shift 2; exec "$@"', 'sh', scratch, mountPoint],
    ...command,
  ];
}

/** A folder that every Debian has and that holds none of `paths`. */
export function scratchMountPoint(paths: readonly string[]): string {
  const isFree = (folder: string): boolean => !paths.some((path) => path === folder || path.startsWith(`${folder}/`));
  return ['/media', '/srv', '/mnt'].find(isFree) ?? '/media';
}
