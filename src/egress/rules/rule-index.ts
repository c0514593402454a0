/**
 * Rules by what they are for: names in one map, the names that wildcards are above in another, blocks in one per length of
 * prefix. A look-up costs as many steps as a name has labels or as there are lengths of prefix, however many rules.
 */
import type { Cidr } from '../../network/cidr.ts';
import type { HostName } from '../../network/host-name.ts';
import type { HostPattern } from '../../network/host-pattern.ts';
import type { IpAddress } from '../../network/ip-address.ts';
import type { CompiledRule } from './compile.ts';

interface BlocksOfLength {
  readonly prefixBits: number;
  readonly rules: Map<string, CompiledRule[]>;
}

const none: readonly CompiledRule[] = [];

export class RuleIndex {
  readonly #exact = new Map<string, CompiledRule[]>();
  readonly #below = new Map<string, CompiledRule[]>();
  /** Longest prefix first. */
  readonly #blocks: Readonly<Record<4 | 6, BlocksOfLength[]>> = { 4: [], 6: [] };

  addHost(pattern: HostPattern, rule: CompiledRule): void {
    append(pattern.kind === 'exact' ? this.#exact : this.#below, pattern.name, rule);
  }

  addBlock({ family, prefixBits, bytes }: Cidr, rule: CompiledRule): void {
    const lengths = this.#blocks[family];
    let blocks = lengths.find((entry) => entry.prefixBits === prefixBits);
    if (blocks === undefined) {
      blocks = { prefixBits, rules: new Map() };
      lengths.push(blocks);
      lengths.sort((a, b) => b.prefixBits - a.prefixBits);
    }
    append(blocks.rules, prefixOf(bytes, prefixBits), rule);
  }

  /** Exact ones first, then by the longest suffix; of one pattern in the order they were added. */
  forHost(host: HostName): readonly CompiledRule[] {
    let found = this.#exact.get(host) ?? none;
    if (this.#below.size === 0) return found;
    for (let dot = host.indexOf('.'); dot >= 0; dot = host.indexOf('.', dot + 1)) {
      found = joined(found, this.#below.get(host.slice(dot + 1)));
    }
    return found;
  }

  /** By the longest prefix; of one block in the order they were added. */
  forAddress({ family, bytes }: IpAddress): readonly CompiledRule[] {
    let found = none;
    for (const { prefixBits, rules } of this.#blocks[family]) {
      found = joined(found, rules.get(prefixOf(bytes, prefixBits)));
    }
    return found;
  }
}

function joined(found: readonly CompiledRule[], more: readonly CompiledRule[] | undefined): readonly CompiledRule[] {
  if (more === undefined) return found;
  return found.length === 0 ? more : [...found, ...more];
}

function append(map: Map<string, CompiledRule[]>, key: string, rule: CompiledRule): void {
  const rules = map.get(key);
  if (rules === undefined) map.set(key, [rule]);
  else rules.push(rule);
}

function prefixOf(bytes: readonly number[], bits: number): string {
  const whole = bits >> 3;
  let key = '';
  for (let index = 0; index < whole; index++) key += String.fromCharCode(bytes[index] ?? 0);
  const rest = bits & 7;
  return rest === 0 ? key : key + String.fromCharCode((bytes[whole] ?? 0) & (0xff00 >> rest) & 0xff);
}
