/**
 * What has passed, against what may: per rule and for the class, over the life of a sandbox. Bytes are charged as they pass;
 * the connection that uses up the last of them is ended.
 */
import type { NetworkBudget } from '../admission/network.ts';
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
  readonly #class: NetworkBudget | undefined;

  constructor(classBudget: NetworkBudget | undefined) {
    this.#class = classBudget;
  }

  /** Counts `count` of it, unless that is more than may be: then nothing is counted. */
  charge(rule: BudgetedRule | undefined, amount: Amount, count: number): Denial | undefined {
    const over = this.#over(rule, amount, count);
    if (over !== undefined) return over;
    this.#add(classKey, amount, count);
    if (rule !== undefined) this.#add(rule.id, amount, count);
    return undefined;
  }

  /** Whether a byte may pass at all in either direction; asked before a connection is made. */
  exhausted(rule: BudgetedRule | undefined): Denial | undefined {
    return this.#over(rule, 'upBytes', 1) ?? this.#over(rule, 'downBytes', 1);
  }

  /** Asked for every piece that passes, so the sentence is made only when it is needed. */
  #over(rule: BudgetedRule | undefined, amount: Amount, count: number): Denial | undefined {
    const ofRule = rule?.budget?.[amount];
    if (rule !== undefined && ofRule !== undefined && this.#usedOf(rule.id)[amount] + count > ofRule) {
      return usedUp(rule, `rule ${rule.id}`, ofRule, amount);
    }
    const ofClass = this.#class?.[amount];
    if (ofClass === undefined || this.#usedOf(classKey)[amount] + count <= ofClass) return undefined;
    return usedUp(rule, 'the class', ofClass, amount);
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

function usedUp(rule: BudgetedRule | undefined, whose: string, most: number, amount: Amount): Denial {
  const reason = `The budget of ${whose} is used up: ${most} ${names[amount]}.`;
  return { code: 'budget_used_up', rule: rule?.id ?? null, reason };
}

/** No rule can have this id. */
const classKey = '';
