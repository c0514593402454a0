/**
 * How the host's apt reaches its mirrors: proxies, timeouts, date checks. Read from `apt-config dump` and handed to the
 * build, in which nothing else of the host's apt configuration counts. None of it stays in the image.
 */

const exact: ReadonlySet<string> = new Set([
  'acquire::check-date',
  'acquire::check-valid-until',
  'acquire::forceipv4',
  'acquire::forceipv6',
  'acquire::max-futuretime',
  'acquire::retries',
]);
const prefixes = ['acquire::http::', 'acquire::https::'];

/** @returns apt configuration lines such as `Acquire::Retries "3";` */
export function transportOptions(dump: string): string[] {
  return dump.split('\n').filter((line) => {
    const name = (line.split(' ', 1)[0] ?? '').toLowerCase();
    const isSet = line.endsWith('";') && !line.endsWith(' "";');
    return isSet && (exact.has(name) || prefixes.some((prefix) => name.startsWith(prefix)));
  });
}
