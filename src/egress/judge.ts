/**
 * The rules that bind a sandbox now: those of its Grant, and every tightening since, each a layer that must allow too. Layers
 * are only added and phases only go forward, so what binds never gets wider (invariant 4).
 */
import { networkInterfaces } from 'node:os';
import type { NetworkGrant, NetworkRule } from '../admission/network.ts';
import { SallyportError } from '../errors/error.ts';
import { type IpAddress, parseIpAddress } from '../network/ip-address.ts';
import { tighter } from './budget.ts';
import { judgeAddress } from './rules/address-check.ts';
import { type CompiledRules, compileRules } from './rules/compile.ts';
import { decide } from './rules/decide.ts';
import { type Explanation, explain } from './rules/explain.ts';
import type { Attempt, Decision, Denial, Handling } from './types.ts';

/** Different tightenings of one sandbox; see docs/limits.md. */
const mostLayers = 64;

/** What sees more comes first. */
const strictestFirst: readonly Handling[] = ['open', 'http', 'splice'];

export class Judge {
  readonly #layers: CompiledRules[];
  readonly #grant: NetworkGrant;
  /** By id, with the least that any layer gives each budget and bandwidth. */
  readonly #rules: Map<string, NetworkRule>;
  readonly #daemonPorts: ReadonlySet<number>;
  readonly #keys = new Set<string>();
  #phase: string | undefined;

  constructor(grant: NetworkGrant, daemonPorts: ReadonlySet<number>) {
    this.#grant = grant;
    this.#layers = [compileRules(grant)];
    this.#daemonPorts = daemonPorts;
    this.#rules = new Map(grant.mode === 'deny' ? [] : grant.rules.map((rule) => [rule.id, rule]));
    this.#phase = grant.mode === 'deny' ? undefined : grant.phases[0];
  }

  get phase(): string | undefined {
    return this.#phase;
  }

  get phases(): readonly string[] {
    return this.#grant.mode === 'deny' ? [] : this.#grant.phases;
  }

  rule(id: string | null): NetworkRule | undefined {
    return id === null ? undefined : this.#rules.get(id);
  }

  /** The first layer that denies; else the rule of the Grant's own, handled as the strictest of them asks. */
  decide(attempt: Attempt): Decision {
    const decisions = this.#layers.map((rules) => decide(rules, this.#phase, attempt));
    const [first] = decisions;
    if (first === undefined) throw new SallyportError('internal', 'Cannot judge: no rules');
    const allowed = decisions.filter((decision) => decision.verdict === 'allow');
    if (first.verdict === 'deny' || allowed.length < decisions.length) {
      return decisions.find(({ verdict }) => verdict === 'deny') ?? first;
    }
    const handling = strictestFirst.find((each) => allowed.some((decision) => decision.handling === each));
    return { ...first, handling: handling ?? first.handling };
  }

  explain(attempt: Attempt): Explanation {
    const explanations = this.#layers.map((rules) => explain(rules, this.#phase, attempt));
    const [first] = explanations;
    if (first === undefined) throw new SallyportError('internal', 'Cannot judge: no rules');
    return explanations.find(({ decision }) => decision.verdict === 'deny') ?? first;
  }

  /** Whether an address that a name resolved to may be dialled. */
  judgeAddress(address: IpAddress, port: number): Denial | undefined {
    const own = { addresses: ownAddresses(), daemonPorts: this.#daemonPorts };
    for (const rules of this.#layers) {
      const denial = judgeAddress(rules, this.#phase, address, port, own);
      if (denial !== undefined) return denial;
    }
    return undefined;
  }

  /** From the next attempt on this must allow as well. */
  tighten(grant: NetworkGrant): void {
    const key = JSON.stringify(grant);
    if (this.#keys.has(key)) return;
    this.#keys.add(key);
    // so many different ones are no policy any more; nothing is the only set of rules within all of them that is cheap to ask
    const isTooMany = this.#layers.length >= mostLayers;
    this.#layers.push(compileRules(isTooMany ? { mode: 'deny' } : grant));
    if (grant.mode !== 'deny') for (const rule of grant.rules) this.#lessen(rule);
  }

  #lessen({ id, budget, bandwidth }: NetworkRule): void {
    const rule = this.#rules.get(id);
    if (rule === undefined) return;
    const [least, slowest] = [tighter(rule.budget, budget), tighter(rule.bandwidth, bandwidth)];
    this.#rules.set(id, {
      ...rule,
      ...(least === undefined ? {} : { budget: least }),
      ...(slowest === undefined ? {} : { bandwidth: slowest }),
    });
  }

  /** @throws SallyportError `invalid_request` for a phase that is none, or that is past */
  enter(phase: string): void {
    const at = this.phases.indexOf(phase);
    const now = this.phases.indexOf(this.#phase ?? '');
    const known = this.phases.length === 0 ? 'its class has none' : `it has ${this.phases.join(', ')}`;
    if (at < 0) throw new SallyportError('invalid_request', `Cannot enter phase ${JSON.stringify(phase)}: ${known}`);
    if (at < now) {
      const message = `Cannot enter phase ${phase}: the sandbox is in ${this.#phase} already, and phases go one way`;
      throw new SallyportError('invalid_request', message);
    }
    this.#phase = phase;
  }
}

const ownAddressesMs = 5_000;
let own: { readonly addresses: ReadonlySet<string>; readonly atMs: number } | undefined;

/** The addresses of the host's interfaces, looked up now and then: a laptop changes them while it runs. */
function ownAddresses(): ReadonlySet<string> {
  if (own !== undefined && performance.now() - own.atMs < ownAddressesMs) return own.addresses;
  const texts = Object.values(networkInterfaces()).flatMap((entries) => (entries ?? []).map(({ address }) => address));
  const addresses = texts
    .map((text) => parseIpAddress(text.split('%')[0] ?? '')?.text)
    .filter((text) => text !== undefined);
  own = { addresses: new Set(addresses), atMs: performance.now() };
  return own.addresses;
}
