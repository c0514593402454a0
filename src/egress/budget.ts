/**
 * What has passed, against what may: per rule and for the class, over the life of a sandbox. Bytes are charged as they pass;
 * the connection that uses up the last of them is ended.
 */
import type { NetworkBandwidth, NetworkBudget } from '../admission/network.ts';
import type { Denial } from './types.ts';

export type Amount = keyof NetworkBudget;

export interface BudgetedRule {
  readonly id: string;
  readonly budget?: NetworkBudget;
}

const names: Readonly<Record<Amount, string>> = {
  connections: 'connections',
  requests: 'requests',
  upBytes: 'bytes sent',
  downBytes: 'bytes received',
};

export class BudgetMeter {
  readonly #used = new Map<string, Record<Amount, number>>();
  #class: NetworkBudget | undefined;

  constructor(classBudget: NetworkBudget | undefined) {
    this.#class = classBudget;
  }

  /** Counts `count` of it. What is more than may be uses up the rest: who was refused a large piece does not go on with small ones. */
  charge(rule: BudgetedRule | undefined, amount: Amount, count: number): Denial | undefined {
    const over = this.#over(rule, amount, count);
    if (over !== undefined) {
      this.#usedOf(over.key)[amount] = over.most;
      return usedUp(rule, over.key === classKey ? 'the class' : `rule ${over.key}`, over.most, amount);
    }
    this.#add(classKey, amount, count);
    if (rule !== undefined) this.#add(rule.id, amount, count);
    return undefined;
  }

  /** Whether not a byte may pass any more in one of the directions; asked before a connection is made. */
  exhausted(rule: BudgetedRule | undefined): Denial | undefined {
    for (const amount of ['upBytes', 'downBytes'] as const) {
      const over = this.#over(rule, amount, 1);
      if (over !== undefined)
        return usedUp(rule, over.key === classKey ? 'the class' : `rule ${over.key}`, over.most, amount);
    }
    return undefined;
  }

  /** A later policy may allow less of the class; never more. */
  tighten(budget: NetworkBudget | undefined): void {
    this.#class = tighter(this.#class, budget);
  }

  /** Asked for every piece that passes. */
  #over(rule: BudgetedRule | undefined, amount: Amount, count: number): { key: string; most: number } | undefined {
    const ofRule = rule?.budget?.[amount];
    if (rule !== undefined && ofRule !== undefined && this.#usedOf(rule.id)[amount] + count > ofRule) {
      return { key: rule.id, most: ofRule };
    }
    const ofClass = this.#class?.[amount];
    if (ofClass === undefined || this.#usedOf(classKey)[amount] + count <= ofClass) return undefined;
    return { key: classKey, most: ofClass };
  }

  #add(key: string, amount: Amount, count: number): void {
    this.#usedOf(key)[amount] += count;
  }

  #usedOf(key: string): Record<Amount, number> {
    let used = this.#used.get(key);
    if (used === undefined) {
      used = { connections: 0, requests: 0, upBytes: 0, downBytes: 0 };
      this.#used.set(key, used);
    }
    return used;
  }
}

/** The smaller of each amount. */
export function tighter<Amounts extends NetworkBudget | NetworkBandwidth>(
  a: Amounts | undefined,
  b: Amounts | undefined,
): Amounts | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  const least = new Map(Object.entries(a) as [string, number][]);
  for (const [amount, most] of Object.entries(b) as [string, number][]) {
    least.set(amount, Math.min(most, least.get(amount) ?? most));
  }
  return Object.fromEntries(least) as unknown as Amounts;
}

function usedUp(rule: BudgetedRule | undefined, whose: string, most: number, amount: Amount): Denial {
  const reason = `The budget of ${whose} is used up: ${most} ${names[amount]}.`;
  return { code: 'budget_used_up', rule: rule?.id ?? null, reason };
}

/** No rule can have this id. */
const classKey = '';
