import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { problemsOf, showProblem } from './problems.ts';
import { requestSchema } from './request-schema.ts';

describe('the request schema', () => {
  test('describes itself as JSON schema', () => {
    const schema = z.toJSONSchema(requestSchema, { io: 'input' });
    expect(schema.required).toEqual(['class']);
    expect(Object.keys(schema.properties ?? {})).toEqual([
      ...['class', 'tier', 'root', 'image', 'limits', 'lifetime', 'network', 'env'],
    ]);
  });

  test('extended by another schema, it names the keys of that too', () => {
    const extended = requestSchema.extend({ metadata: z.string().optional() });
    const message = extended.safeParse({ class: 'analysis', meta: 1 }).error?.issues[0]?.message;
    expect(message).toBe(
      'unknown key "meta"; allowed: class, tier, root, image, limits, lifetime, network, env, metadata',
    );
  });

  test.each([
    ['none', '"deny", or an object with rules, hosts or both'],
    [null, '"deny", or an object with rules, hosts or both'],
    [['api.example'], '"deny", or an object with rules, hosts or both'],
    [{ rules: 'web' }, 'rules: saw "web"; allowed: a list'],
    [{ host: [] }, 'unknown key "host"; allowed: rules, hosts'],
    [
      { rules: ['Web'] },
      'saw "Web"; allowed: the id of a rule: a small letter or a digit, then at most 63 of them and "-"',
    ],
    [{ hosts: ['*.com'] }, '"*.com" would allow nearly everything'],
    [{ hosts: Array.from({ length: 257 }, () => 'a.example') }, 'more than 256 entries; allowed: at most 256'],
  ])('says of network %j what is wrong with it', (network, problem) => {
    const { error } = requestSchema.safeParse({ class: 'analysis', network });
    expect(error === undefined ? '' : problemsOf(error).map(showProblem).join('\n')).toMatch(/^network/);
    expect(error?.issues[0]?.message).toContain(problem);
  });
});
