import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canonicalJson, digestOf } from '../digest/digest.ts';
import { SallyportError } from '../errors/error.ts';
import { type Admission, type AdmissionFacts, admit, type Denial, grantOrThrow } from './admit.ts';
import type { Grant, GrantLifetime, GrantLimits, SandboxRequest, StampedGrant } from './grant.ts';
import { parsePolicy } from './policy.ts';
import { lifetimeQuantities, limitQuantities } from './quantities.ts';

const shipped = readFileSync(new URL('../../policies/default.yaml', import.meta.url), 'utf8');
const policy = parsePolicy(shipped, 'policies/default.yaml');

/** `analysis` as it ships, with root, and once as a class whose default tier is `process`. */
const wider = parsePolicy(
  shipped
    .replace('tier: container, atLeast: process, root: false', 'tier: container, atLeast: process, root: true')
    .replace('tier: container, atLeast: container, root: false', 'tier: process, atLeast: process, root: false')
    .replace(/(coding:[\s\S]*?)default: base, allow: \[\]/, '$1default: host, allow: [python]')
    .replace(/(evaluation:[\s\S]*?)default: base, allow: \[\]/, '$1default: base, allow: [python]'),
  'wider.yaml',
);

const limitKeys = Object.keys(limitQuantities) as (keyof GrantLimits)[];
const lifetimeKeys = Object.keys(lifetimeQuantities) as (keyof GrantLifetime)[];

const images = new Map([
  ['base', `sha256:${'a'.repeat(64)}`],
  ['python', `sha256:${'b'.repeat(64)}`],
  ['host', `sha256:${'c'.repeat(64)}`],
]);
const facts: AdmissionFacts = { images };

const analysis = policy.classes[0] ?? expect.unreachable();

function granted(admission: Admission): StampedGrant {
  if (admission.verdict === 'denied') throw new Error(admission.reason);
  return admission.stamped;
}

function denied(admission: Admission): Denial {
  if (admission.verdict === 'granted') throw new Error('it was granted');
  return admission;
}

function variable(env: Readonly<Record<string, string>>, name: string): string | undefined {
  return env[name];
}

describe('a request that asks for nothing', () => {
  test('gets its class', () => {
    expect(granted(admit(policy, { class: 'analysis' }, facts)).grant).toEqual({
      version: 1,
      class: 'analysis',
      policySha256: policy.sha256,
      isolation: { tier: 'container', root: false },
      image: { name: 'base', digest: images.get('base') },
      files: { workdir: '/home/user', inputBytes: 1024 ** 3, inputFiles: 10_000 },
      network: { mode: 'deny' },
      packages: { mode: 'none' },
      secrets: { mode: 'none' },
      limits: analysis.limits,
      env: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/home/user', USER: 'user', LANG: 'C.UTF-8' },
      artifacts: { bytes: 256 * 1024 ** 2, files: 1000 },
      tools: [],
      lifetime: analysis.lifetime,
    });
  });

  test('is granted in every class that ships', () => {
    for (const job of policy.classes) expect(admit(policy, { class: job.name }, facts).verdict).toBe('granted');
  });
});

describe('a request may only narrow', () => {
  test.each(limitKeys)('limits.%s: more is refused, the same and less are granted', (key) => {
    const most = analysis.limits[key];
    const ask = (value: number) => admit(policy, { class: 'analysis', limits: { [key]: value } }, facts);
    expect(denied(ask(most + 1))).toMatchObject({
      code: 'request_widens',
      rule: `classes.analysis.limits.${limitQuantities[key].key}`,
    });
    expect(granted(ask(most)).grant.limits[key]).toBe(most);
    expect(granted(ask(limitQuantities[key].min)).grant.limits[key]).toBe(limitQuantities[key].min);
  });

  test.each(lifetimeKeys)('lifetime.%s: more is refused, the same and less are granted', (key) => {
    const most = analysis.lifetime[key];
    const ask = (value: number) => admit(policy, { class: 'analysis', lifetime: { [key]: value } }, facts);
    expect(denied(ask(most + 1))).toMatchObject({
      code: 'request_widens',
      rule: `classes.analysis.lifetime.${lifetimeQuantities[key].key}`,
    });
    expect(granted(ask(most)).grant.lifetime[key]).toBe(most);
    expect(granted(ask(1000)).grant.lifetime[key]).toBe(1000);
  });

  const widening: [string, SandboxRequest, string][] = [
    ['a weaker tier', { class: 'coding', tier: 'process' }, 'classes.coding.isolation.atLeast'],
    ['root', { class: 'analysis', root: true }, 'classes.analysis.isolation.root'],
    ['an image that is here but not allowed', { class: 'analysis', image: 'python' }, 'classes.analysis.image'],
    ["the host's /usr in a container", { class: 'analysis', image: 'host' }, 'classes.analysis.image'],
    ['an image in tier process', { class: 'analysis', tier: 'process', image: 'base' }, 'classes.analysis.image'],
    ['a variable', { class: 'analysis', env: { SECRET: 'x' } }, 'classes.analysis.env.allow'],
    ['a variable in other case', { class: 'analysis', env: { tz: 'UTC' } }, 'classes.analysis.env.allow'],
    ['the bare prefix without its "_"', { class: 'analysis', env: { APP: 'x' } }, 'classes.analysis.env.allow'],
    ['the prefix in the middle', { class: 'analysis', env: { MY_APP_X: 'x' } }, 'classes.analysis.env.allow'],
    ['a variable that the class sets', { class: 'analysis', env: { PATH: '/tmp' } }, 'classes.analysis.env.allow'],
    ['LD_PRELOAD (PX-27)', { class: 'analysis', env: { LD_PRELOAD: '/x.so' } }, 'classes.analysis.env.allow'],
  ];
  test.each(widening)('%s is refused', (_name, request, rule) => {
    expect(denied(admit(policy, request, facts))).toMatchObject({ code: 'request_widens', rule });
  });

  const narrowing: [string, SandboxRequest, (grant: Grant) => unknown, unknown][] = [
    ['the weakest tier allowed', { class: 'analysis', tier: 'process' }, (grant) => grant.isolation.tier, 'process'],
    ['the same tier', { class: 'coding', tier: 'container' }, (grant) => grant.isolation.tier, 'container'],
    ['a stronger tier', { class: 'coding', tier: 'container' }, (grant) => grant.image.name, 'base'],
    ['no root', { class: 'analysis', root: false }, (grant) => grant.isolation.root, false],
    ['the default image by name', { class: 'analysis', image: 'base' }, (grant) => grant.image.name, 'base'],
    ['tier process, and so image host', { class: 'analysis', tier: 'process' }, (grant) => grant.image.name, 'host'],
    ['image host by name', { class: 'analysis', tier: 'process', image: 'host' }, (grant) => grant.image.name, 'host'],
    ['a variable by name', { class: 'analysis', env: { TZ: 'UTC' } }, (grant) => variable(grant.env, 'TZ'), 'UTC'],
    [
      'a variable by prefix',
      { class: 'analysis', env: { APP_MODE: 'x' } },
      (grant) => variable(grant.env, 'APP_MODE'),
      'x',
    ],
    ['an empty value', { class: 'analysis', env: { CI: '' } }, (grant) => variable(grant.env, 'CI'), ''],
  ];
  test.each(narrowing)('%s is granted', (_name, request, pick, value) => {
    expect(pick(granted(admit(policy, request, facts)).grant)).toBe(value);
  });

  test('every violation is in the reason, the first is the rule', () => {
    const request = {
      class: 'analysis',
      root: true,
      limits: { memoryBytes: 2 * 1024 ** 3 },
      env: { FOO: 'x', BAR: 'y' },
    };
    const denial = denied(admit(policy, request, facts));
    expect(denial.rule).toBe('classes.analysis.isolation.root');
    expect(denial.reason).toBe(
      'Cannot create sandbox of class analysis: root is not allowed; limits.memoryBytes 2GiB is more than 1GiB; ' +
        'env BAR, FOO: the class allows CI, DEBUG, LOG_LEVEL, NO_COLOR, NODE_ENV, PYTHONHASHSEED, PYTHONUNBUFFERED, SEED, TERM, TZ, APP_*, TASK_*',
    );
  });

  test('a reason stays short whatever was asked', () => {
    const env = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`X${index}`, '']));
    expect(denied(admit(policy, { class: 'analysis', env }, facts)).reason).toMatch(/X1005 and 4990 more: the class/);
  });

  test('no value of a variable appears in a refusal', () => {
    const secret = 'hunter2hunter2';
    const requests: unknown[] = [
      { class: 'analysis', env: { FOO: secret } },
      { class: 'analysis', env: { 'not a name': secret } },
      { class: 'analysis', env: { TZ: `${secret}\0` } },
      { class: 'analysis', env: { TZ: { [secret]: secret } } },
    ];
    for (const request of requests) {
      expect(JSON.stringify(admit(policy, request as SandboxRequest, facts))).not.toContain(secret);
    }
  });
});

describe('a class with root', () => {
  test('grants it, unless the request does without', () => {
    expect(granted(admit(wider, { class: 'analysis' }, facts)).grant.isolation.root).toBe(true);
    expect(granted(admit(wider, { class: 'analysis', root: true }, facts)).grant.isolation.root).toBe(true);
    expect(granted(admit(wider, { class: 'analysis', root: false }, facts)).grant.isolation.root).toBe(false);
  });
});

describe('images', () => {
  test('a listed image may be chosen instead of the default', () => {
    expect(granted(admit(wider, { class: 'evaluation' }, facts)).grant.image.name).toBe('base');
    expect(granted(admit(wider, { class: 'evaluation', image: 'python' }, facts)).grant.image).toEqual({
      name: 'python',
      digest: images.get('python'),
    });
  });

  test('a class of tier process runs on host, and on its first listed image in a stronger tier', () => {
    const { isolation, image } = granted(admit(wider, { class: 'coding' }, facts)).grant;
    expect([isolation.tier, image.name]).toEqual(['process', 'host']);
    const stronger = granted(admit(wider, { class: 'coding', tier: 'container' }, facts)).grant;
    expect([stronger.isolation.tier, stronger.image.name]).toEqual(['container', 'python']);
  });

  test('a stronger tier without an image for it is refused', () => {
    const bare = parsePolicy(
      shipped
        .replace('tier: container, atLeast: process', 'tier: process, atLeast: process')
        .replace('default: base', 'default: host'),
      'bare.yaml',
    );
    expect(denied(admit(bare, { class: 'analysis', tier: 'container' }, facts)).reason).toBe(
      'Cannot create sandbox of class analysis: the class has no image for tier container',
    );
  });
});

describe('what stands in the way', () => {
  test.each(['nope', 'Analysis', 'analysis ', '__proto__', 'constructor', 'toString'])(
    'class %j is unknown',
    (name) => {
      expect(denied(admit(policy, { class: name }, facts))).toEqual({
        verdict: 'denied',
        code: 'class_unknown',
        rule: 'classes',
        reason: `Cannot create sandbox: no class ${JSON.stringify(name)}; the policy has analysis, coding, evaluation, build`,
      });
    },
  );

  test('an image that is not on this host', () => {
    expect(denied(admit(policy, { class: 'analysis' }, { images: new Map() }))).toMatchObject({
      code: 'image_missing',
      rule: 'classes.analysis.image',
      reason: 'Cannot create sandbox of class analysis: image "base" of tier container is not on this host',
    });
  });

  test('a tier that does not work on this host, and no other is taken instead (LX-07)', () => {
    const host = { images, availableTiers: new Set(['process'] as const) };
    expect(denied(admit(policy, { class: 'analysis' }, host))).toMatchObject({
      code: 'tier_unavailable',
      rule: 'classes.analysis.isolation.tier',
    });
    expect(admit(policy, { class: 'analysis', tier: 'process' }, host).verdict).toBe('granted');
  });

  test.each([
    ['no object', null, 'request'],
    ['no class', {}, 'request.class'],
    ['an unknown key', { class: 'analysis', egress: 'all' }, 'request'],
    ['an unknown limit', { class: 'analysis', limits: { gpus: 1 } }, 'request.limits'],
    ['a human unit', { class: 'analysis', limits: { memoryBytes: '1GiB' } }, 'request.limits.memoryBytes'],
    ['NaN', { class: 'analysis', limits: { memoryBytes: Number.NaN } }, 'request.limits.memoryBytes'],
    ['Infinity', { class: 'analysis', limits: { pids: Number.POSITIVE_INFINITY } }, 'request.limits.pids'],
    ['a negative number', { class: 'analysis', limits: { outputBytes: -1 } }, 'request.limits.outputBytes'],
    ['a fraction', { class: 'analysis', limits: { cpuMillis: 10.5 } }, 'request.limits.cpuMillis'],
    ['less than can start', { class: 'analysis', limits: { memoryBytes: 1 } }, 'request.limits.memoryBytes'],
    ['null for a limit', { class: 'analysis', limits: { pids: null } }, 'request.limits.pids'],
    ['undefined for a field', { class: 'analysis', tier: undefined }, 'request.tier'],
    ['an unknown tier', { class: 'analysis', tier: 'gvisor' }, 'request.tier'],
    ['a text for root', { class: 'analysis', root: 'no' }, 'request.root'],
    ['a list for env', { class: 'analysis', env: ['A=1'] }, 'request.env'],
    ['a name with "="', { class: 'analysis', env: { 'A=B': '1' } }, 'request.env."A=B"'],
    ['an empty name', { class: 'analysis', env: { '': '1' } }, 'request.env.""'],
    ['a name that begins with a digit', { class: 'analysis', env: { '1A': '1' } }, 'request.env.1A'],
    ['a number for a value', { class: 'analysis', env: { TZ: 1 } }, 'request.env.TZ'],
    ['a NUL in a value', { class: 'analysis', env: { TZ: 'a\0b' } }, 'request.env.TZ'],
    ['half a surrogate pair in a value', { class: 'analysis', env: { TZ: '\ud800' } }, 'request.env.TZ'],
    ['a value longer than the kernel takes', { class: 'analysis', env: { TZ: 'x'.repeat(131_072) } }, 'request.env.TZ'],
    ['env __proto__', JSON.parse('{"class":"analysis","env":{"__proto__":"x"}}'), 'request.env'],
    ['__proto__', JSON.parse('{"class":"analysis","__proto__":{"root":true}}'), 'request'],
  ])('%s is no request', (_name, request, rule) => {
    expect(denied(admit(policy, request as SandboxRequest, facts))).toMatchObject({ code: 'invalid_request', rule });
  });

  test('a request that contradicts itself is refused rather than bent', () => {
    const request = { class: 'analysis', limits: { execMs: 120_000 }, lifetime: { wallMs: 60_000, idleMs: 90_000 } };
    expect(denied(admit(policy, request, facts)).reason).toBe(
      'Cannot read the sandbox request: limits.execMs: saw 120000; allowed: at most lifetime.wallMs, 60000; ' +
        'lifetime.idleMs: saw 90000; allowed: at most lifetime.wallMs, 60000',
    );
  });

  test('a shorter life shortens what was left to the class', () => {
    const { limits, lifetime } = granted(
      admit(policy, { class: 'analysis', lifetime: { wallMs: 60_000 } }, facts),
    ).grant;
    expect([limits.execMs, lifetime.idleMs, lifetime.wallMs]).toEqual([60_000, 60_000, 60_000]);
  });

  test('grantOrThrow throws the refusal with its code, and returns the Grant', () => {
    expect(() => grantOrThrow(policy, { class: 'nope' }, facts)).toThrow(SallyportError);
    expect(grantOrThrow(policy, { class: 'build' }, facts).grant.class).toBe('build');
  });
});

describe('the Grant', () => {
  const stamped = granted(admit(policy, { class: 'analysis', env: { TZ: 'UTC' } }, facts));

  test('is frozen to the last leaf, and the policy cannot be reached through it', () => {
    for (const part of [stamped, stamped.grant, ...Object.values(stamped.grant)]) {
      if (typeof part === 'object') expect(Object.isFrozen(part)).toBe(true);
    }
    expect(() => Object.assign(stamped.grant.env, { LD_PRELOAD: 'x' })).toThrow(TypeError);
  });

  test('does not change with the request it came from', () => {
    const request = { class: 'analysis', env: { TZ: 'UTC' }, limits: { pids: 32 } };
    const { grant, digest } = granted(admit(policy, request, facts));
    request.env.TZ = 'CET';
    request.limits.pids = 200;
    expect(variable(grant.env, 'TZ')).toBe('UTC');
    expect(digestOf(grant)).toBe(digest);
  });

  test('is stamped with the sha256 of its canonical JSON', () => {
    expect(stamped.digest).toMatch(/^[0-9a-f]{64}$/);
    expect(stamped.digest).toBe(digestOf(JSON.parse(JSON.stringify(stamped.grant))));
  });

  test('has one digest whatever the order of the keys of the request', () => {
    const one = {
      class: 'analysis',
      tier: 'process',
      limits: { pids: 32, inodes: 100 },
      env: { TZ: 'a', CI: 'b' },
    } as const;
    const other = {
      env: { CI: 'b', TZ: 'a' },
      limits: { inodes: 100, pids: 32 },
      tier: 'process',
      class: 'analysis',
    } as const;
    expect(granted(admit(policy, one, facts)).digest).toBe(granted(admit(policy, other, facts)).digest);
  });

  test('has another digest when any leaf is another', () => {
    const seen = new Set([stamped.digest]);
    const paths = leaves(stamped.grant);
    for (const path of paths) seen.add(digestOf(changed(stamped.grant, path)));
    expect(paths.length).toBeGreaterThan(25);
    expect(seen.size).toBe(paths.length + 1);
  });

  test('has another digest when the image or the policy is another', () => {
    const rebuilt = { images: new Map([['base', 'sha256:other']]) };
    const commented = parsePolicy(`${shipped}# reviewed\n`, 'policies/default.yaml');
    const digests = [
      granted(admit(policy, { class: 'analysis' }, facts)),
      granted(admit(policy, { class: 'analysis' }, rebuilt)),
      granted(admit(commented, { class: 'analysis' }, facts)),
    ].map(({ digest }) => digest);
    expect(new Set(digests).size).toBe(3);
  });
});

/** Every path that ends in no object, and empty objects and lists. */
function leaves(value: unknown, path: readonly string[] = []): string[][] {
  if (typeof value !== 'object' || value === null || Object.keys(value).length === 0) return [[...path]];
  return Object.entries(value).flatMap(([key, item]) => leaves(item, [...path, key]));
}

function changed(value: unknown, [key, ...rest]: readonly string[]): unknown {
  if (key === undefined) return typeof value === 'number' ? value + 1 : [value, 'changed'];
  return { ...Object(value), [key]: changed(Object(value)[key], rest) };
}

describe('for any request', () => {
  /** Mostly what is granted, sometimes what is not. */
  const amountOf = (allowed: number, min: number) =>
    fc.oneof(
      { weight: 40, arbitrary: fc.integer({ min, max: allowed }) },
      { weight: 1, arbitrary: fc.integer({ min: 0, max: allowed * 2 }) },
    );
  const rarely = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 4 });
  const limitsOf = (limits: GrantLimits) =>
    Object.fromEntries(
      limitKeys.map((key) => [
        key,
        key === 'execMs' ? fc.constant(limits[key]) : amountOf(limits[key], limitQuantities[key].min),
      ]),
    );
  const lifetimeOf = ({ wallMs, idleMs }: GrantLifetime) => ({
    wallMs: amountOf(wallMs, Math.floor(wallMs / 2)),
    idleMs: amountOf(idleMs, 100),
  });
  const names = [...['TZ', 'CI', 'APP_X', 'APP_Y', 'TASK_ID', 'TERM', 'SEED', 'DEBUG'], ...['PATH', 'OTHER']];
  const requests = fc.constantFrom(...policy.classes).chain((job) =>
    fc.record({
      class: fc.constant(job.name),
      tier: rarely(fc.constantFrom('process', 'container')),
      root: rarely(fc.boolean()),
      image: rarely(fc.constantFrom('base', 'python', 'host', 'other')),
      limits: fc.record(limitsOf(job.limits), { requiredKeys: [] }),
      lifetime: fc.record(lifetimeOf(job.lifetime), { requiredKeys: [] }),
      env: fc.dictionary(fc.constantFrom(...names), fc.string(), { maxKeys: 2 }),
    }),
  );
  const withoutUndefined = (request: object) =>
    Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined)) as unknown as SandboxRequest;

  test('what is granted is never more than the class, and is exactly what was asked where something was', () => {
    let grants = 0;
    fc.assert(
      fc.property(fc.constantFrom(policy, wider), requests, (matrix, generated) => {
        const request = withoutUndefined(generated);
        const admission = admit(matrix, request, facts);
        if (admission.verdict === 'denied') return;
        grants += 1;
        const { grant } = admission.stamped;
        const job = matrix.classes.find(({ name }) => name === request.class) ?? expect.unreachable();
        for (const [key, most] of Object.entries(job.limits)) {
          const got = grant.limits[key as keyof GrantLimits];
          expect(got).toBeLessThanOrEqual(most);
          const asked = request.limits?.[key as keyof GrantLimits];
          if (asked !== undefined) expect(got).toBe(asked);
        }
        expect(grant.lifetime.wallMs).toBe(request.lifetime?.wallMs ?? job.lifetime.wallMs);
        expect(grant.lifetime.idleMs).toBeLessThanOrEqual(job.lifetime.idleMs);
        expect(Math.max(grant.limits.execMs, grant.lifetime.idleMs)).toBeLessThanOrEqual(grant.lifetime.wallMs);
        expect(job.isolation.root || !grant.isolation.root).toBe(true);
        expect(grant.isolation.tier === 'container' || job.isolation.atLeast === 'process').toBe(true);
        expect(grant.image.name === 'host').toBe(grant.isolation.tier === 'process');
        expect(variable(grant.env, 'PATH')).toBe(variable(job.env.set, 'PATH'));
        expect(variable(grant.env, 'OTHER')).toBeUndefined();
      }),
      { numRuns: 2000 },
    );
    expect(grants).toBeGreaterThan(200);
  });

  test('the decision is a function of its inputs', () => {
    fc.assert(
      fc.property(requests, (generated) => {
        const request = withoutUndefined(generated);
        expect(canonicalJson(admit(policy, request, facts))).toBe(canonicalJson(admit(policy, request, facts)));
      }),
    );
  });

  const extras = { withBigInt: true, withDate: true, withMap: true, withNullPrototype: true, withSparseArray: true };
  test('whatever is sent is answered, never thrown at', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.anything(extras), fc.record({ class: fc.anything(extras), limits: fc.anything(extras) })),
        (request) => {
          expect(admit(policy, request as SandboxRequest, facts).verdict).toBe('denied');
        },
      ),
    );
  });
});

describe('docs/permission-matrix.md', () => {
  const page = readFileSync(new URL('../../docs/permission-matrix.md', import.meta.url), 'utf8');
  test.each<[SandboxRequest, AdmissionFacts]>([
    [{ class: 'deploy' }, facts],
    [{ class: 'analysis', root: true, limits: { memoryBytes: 2_147_483_648 } }, facts],
    [{ class: 'coding', tier: 'process' }, facts],
    [{ class: 'analysis', env: { LD_PRELOAD: '/tmp/x.so' } }, facts],
    [{ class: 'analysis', network: { hosts: ['api.example'] } }, facts],
    [{ class: 'analysis', limits: { execMs: 120_000 }, lifetime: { wallMs: 60_000 } }, facts],
    [{ class: 'build' }, { images: new Map() }],
  ])('quotes the refusal of %j as it is', (request, having) => {
    expect(page).toContain(denied(admit(policy, request, having)).reason);
  });
});
