import { describe, expect, it } from 'vitest';
import { BudgetMeter } from './budget.ts';

describe('a budget', () => {
  it('lets pass exactly what it holds, and names what is used up', () => {
    const meter = new BudgetMeter(undefined);
    const rule = { id: 'pypi', budget: { requests: 2 } };
    expect(meter.charge(rule, 'requests', 1)).toBeUndefined();
    expect(meter.charge(rule, 'requests', 1)).toBeUndefined();
    expect(meter.charge(rule, 'requests', 1)).toMatchObject({
      code: 'budget_used_up',
      rule: 'pypi',
      reason: 'The budget of rule pypi is used up: 2 requests.',
    });
  });

  it('of the class counts over all rules, and what no rule covers', () => {
    const meter = new BudgetMeter({ upBytes: 10 });
    expect(meter.charge({ id: 'a' }, 'upBytes', 6)).toBeUndefined();
    expect(meter.charge({ id: 'b' }, 'upBytes', 4)).toBeUndefined();
    expect(meter.charge(undefined, 'upBytes', 1)).toMatchObject({ reason: expect.stringContaining('the class') });
    expect(meter.exhausted(undefined)).toBeDefined();
  });

  it('is used up by what it refuses: nobody goes on in smaller pieces', () => {
    const meter = new BudgetMeter({ downBytes: 10 });
    expect(meter.charge(undefined, 'downBytes', 11)).toBeDefined();
    expect(meter.charge(undefined, 'downBytes', 1)).toBeDefined();
    expect(meter.exhausted(undefined)).toBeDefined();
  });

  it('that is not given bounds nothing', () => {
    const meter = new BudgetMeter(undefined);
    expect(meter.charge({ id: 'a' }, 'upBytes', Number.MAX_SAFE_INTEGER)).toBeUndefined();
  });
});
