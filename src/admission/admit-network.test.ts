/** The network of a Grant: that of the class, or less. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Admission, admit, type Denial } from './admit.ts';
import type { SandboxRequest, StampedGrant } from './grant.ts';
import { parsePolicy } from './policy.ts';

const shipped = readFileSync(new URL('../../policies/default.yaml', import.meta.url), 'utf8');
const facts = { images: new Map([['base', `sha256:${'a'.repeat(64)}`]]) };

function granted(admission: Admission): StampedGrant {
  if (admission.verdict === 'denied') throw new Error(admission.reason);
  return admission.stamped;
}

function denied(admission: Admission): Denial {
  if (admission.verdict === 'granted') throw new Error('it was granted');
  return admission;
}

describe('the network', () => {
  const open = parsePolicy(
    shipped.replace(
      'network: deny',
      'network: { mode: allow, rules: [{ id: web, hosts: ["*.web.example"] }, { id: api, hosts: [api.example] }, { id: no, hosts: [no.web.example], verdict: deny }] }',
    ),
    'open.yaml',
  );
  const ask = (network: unknown, job = 'analysis') =>
    admit(open, { class: job, network } as unknown as SandboxRequest, facts);
  const [job = expect.unreachable()] = open.classes;

  test('is that of the class where nothing is asked', () => {
    expect(granted(admit(open, { class: 'analysis' }, facts)).grant.network).toEqual(job.network);
    expect(granted(admit(open, { class: 'coding' }, facts)).grant.network).toEqual({ mode: 'deny' });
  });

  test.each([
    ['deny', { mode: 'deny' }],
    [{}, job.network],
    [{ rules: ['api'] }, { ...job.network, narrowing: { rules: ['api', 'no'] } }],
    [
      { hosts: ['a.web.example', 'API.example'] },
      { ...job.network, narrowing: { hosts: ['a.web.example', 'api.example'] } },
    ],
    [{ hosts: [] }, { ...job.network, narrowing: { hosts: [] } }],
  ])('%j narrows it', (network, expected) => {
    expect(granted(ask(network)).grant.network).toEqual(expected);
  });

  test.each([
    [{ rules: ['other'] }, 'network rule other: the class has web, api, no'],
    [{ hosts: ['evil.example'] }, 'network host evil.example: allowed are *.web.example, api.example'],
    [{ hosts: ['web.example'] }, 'network host web.example: allowed are *.web.example, api.example'],
  ])('%j is more', (network, reason) => {
    expect(denied(ask(network))).toEqual({
      verdict: 'denied',
      code: 'request_widens',
      rule: 'classes.analysis.network',
      reason: `Cannot create sandbox of class analysis: ${reason}`,
    });
  });

  test('of a class that has none stays none', () => {
    expect(denied(ask({ hosts: ['api.example'] }, 'coding'))).toMatchObject({
      rule: 'classes.coding.network',
      reason: 'Cannot create sandbox of class coding: network api.example: the class allows no network',
    });
    expect(granted(ask('deny', 'coding')).grant.network).toEqual({ mode: 'deny' });
  });

  test.each([
    'allow',
    'observe',
    'none',
    null,
    [],
    { mode: 'observe' },
    { rules: 'web' },
    { rules: ['WEB'] },
    { hosts: ['*'] },
    { hosts: ['*.com'] },
    { hosts: ['10.0.0.0/8'] },
    { hosts: ['a\0.example'] },
    { hosts: [1] },
    { hosts: Array.from({ length: 257 }, () => 'api.example') },
    { narrowing: {} },
  ])('%j is no request', (network) => {
    expect(denied(ask(network)).code).toBe('invalid_request');
  });

  test('no request gets other rules, or a weaker mode (invariant 4)', () => {
    const host = fc.constantFrom('api.example', 'a.web.example', '*.web.example', '*.a.web.example', 'web.example');
    const asked = fc.oneof(
      fc.constant('deny'),
      fc.record(
        { rules: fc.subarray(['web', 'api', 'no', 'other']), hosts: fc.array(host, { maxLength: 2 }) },
        { requiredKeys: [] },
      ),
      fc.record({ mode: fc.constant('observe'), rules: fc.constant([]) }),
      fc.jsonValue({ maxDepth: 2 }),
    );
    const modes = fc.constantFrom(open, parsePolicy(openText('observe'), 'o.yaml'), parsePolicy(shipped, 'd.yaml'));
    const seen = new Set<string>();
    fc.assert(
      fc.property(modes, asked, (matrix, network) => {
        const admission = admit(matrix, { class: 'analysis', network } as unknown as SandboxRequest, facts);
        if (admission.verdict === 'denied') return;
        const whole = matrix.classes[0]?.network;
        const left = admission.stamped.grant.network;
        seen.add(`${whole?.mode} ${left.mode}`);
        if (left.mode === 'deny') return;
        const { narrowing: _narrowing, ...rest } = left;
        expect(rest).toEqual(whole);
      }),
      { numRuns: 1000 },
    );
    expect([...seen].sort()).toEqual(['allow allow', 'allow deny', 'deny deny', 'observe deny', 'observe observe']);
  });

  function openText(mode: string): string {
    return shipped.replace(
      'network: deny',
      `network: { mode: ${mode}, rules: [{ id: web, hosts: ["*.web.example"] }, { id: no, hosts: [x.example], verdict: deny }] }`,
    );
  }
});
