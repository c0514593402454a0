/** From three and more that differ in one place only, what they have in common. Never done unless it is asked for. */
import { parseHostPattern } from '../../network/host-pattern.ts';
import { distinct, grouped } from './grouping.ts';

const fewest = 3;

/** Names right below one parent become `*.parent`, where such a pattern may stand. */
export function wildcardHosts(hosts: readonly string[]): string[] {
  return generalised(hosts, (host) => {
    const pattern = parseHostPattern(`*.${host.slice(host.indexOf('.') + 1)}`);
    return host.includes('.') ? pattern?.text : undefined;
  });
}

/** Paths that differ in their last segment that is not empty become one with `*` there. */
export function siblingPaths(paths: readonly string[]): string[] {
  return generalised(paths, (path) => {
    const end = path.endsWith('/') ? path.length - 1 : path.length;
    const start = path.lastIndexOf('/', end - 1) + 1;
    return end > start ? `${path.slice(0, start)}*${path.slice(end)}` : undefined;
  });
}

function generalised(texts: readonly string[], widen: (text: string) => string | undefined): string[] {
  const groups = grouped(texts, (text) => widen(text) ?? text);
  return distinct(
    groups.flatMap((same) => (same.length < fewest ? same : same.slice(0, 1).map((text) => widen(text) ?? text))),
  );
}
