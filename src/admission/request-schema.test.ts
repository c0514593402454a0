import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { requestSchema } from './request-schema.ts';

describe('the request schema', () => {
  test('describes itself as JSON schema', () => {
    const schema = z.toJSONSchema(requestSchema, { io: 'input' });
    expect(schema.required).toEqual(['class']);
    expect(Object.keys(schema.properties ?? {})).toEqual([
      ...['class', 'tier', 'root', 'image', 'limits', 'lifetime', 'env'],
    ]);
  });

  test('extended by another schema, it names the keys of that too', () => {
    const extended = requestSchema.extend({ metadata: z.string().optional() });
    const message = extended.safeParse({ class: 'analysis', meta: 1 }).error?.issues[0]?.message;
    expect(message).toBe('unknown key "meta"; allowed: class, tier, root, image, limits, lifetime, env, metadata');
  });
});
