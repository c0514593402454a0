/** Lists of `name=value` lines, as the lock files of a recipe hold them, and what differs between two of them. */

export type PackageList = ReadonlyMap<string, string>;

/** Empty lines and lines with `#` first are skipped; a line without `=` is a name with an empty value. */
export function parsePackageList(text: string): PackageList {
  const packages = new Map<string, string>();
  for (const line of text.split('\n').map((raw) => raw.trim())) {
    if (line === '' || line.startsWith('#')) continue;
    const at = line.indexOf('=');
    if (at === -1) packages.set(line, '');
    else packages.set(line.slice(0, at), line.slice(at + 1));
  }
  return packages;
}

/** Sorted by bytes, so that two machines write one text. */
export function formatPackageList(packages: PackageList): string {
  return [...packages]
    .map(([name, version]) => `${name}=${version}\n`)
    .sort()
    .join('');
}

/** One sentence each, sorted by name: "curl is 2 here, 1 in the lock". */
export function packageDifferences(locked: PackageList, built: PackageList): string[] {
  const names = [...new Set([...locked.keys(), ...built.keys()])].sort();
  return names.flatMap((name) => {
    const [before, now] = [locked.get(name), built.get(name)];
    if (before === now) return [];
    if (before === undefined) return [`${name} ${now} is not in the lock`];
    if (now === undefined) return [`${name} ${before} is in the lock, not in the image`];
    return [`${name} is ${now} here, ${before} in the lock`];
  });
}
