import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { sha256Hex } from '../digest/digest.ts';
import { SallyportError } from '../errors/error.ts';
import { parsePolicy, ruleLine } from './policy.ts';

type Tree = { [key: string]: unknown };

/** One class, as plain values, to break in one place at a time. */
function goodTree() {
  return {
    version: 1 as unknown,
    classes: {
      work: {
        isolation: { tier: 'container', atLeast: 'container', root: false } as Tree,
        image: { default: 'base', allow: ['python'] } as Tree,
        files: { workdir: '/home/user', inputBytes: '1GiB', inputFiles: 10 } as Tree,
        network: 'deny' as unknown,
        packages: 'none' as unknown,
        secrets: 'none' as unknown,
        limits: {
          ...{ cpuShares: 1024, cpuMillis: 2000, memory: '1GiB', pids: 256, openFiles: 1024, disk: '10GB' },
          ...{ inodes: 50000, exec: '10m', output: 65536 },
        } as Tree,
        env: { set: { HOME: '/home/user' } as Tree, allow: ['TZ', 'APP_*'] as unknown },
        artifacts: { bytes: '256MiB', files: 1000 } as Tree,
        tools: [] as unknown,
        lifetime: { wall: '15m', idle: '5m' } as Tree,
      },
    },
  };
}

type Good = ReturnType<typeof goodTree>;

function textWith(change: (tree: Good) => unknown): string {
  const tree = goodTree();
  change(tree);
  return stringify(tree);
}

function refusalOf(text: string): SallyportError {
  try {
    parsePolicy(text, 'p.yaml');
  } catch (error) {
    if (error instanceof SallyportError) return error;
    throw error;
  }
  throw new Error('the policy was accepted');
}

/** The problems without the head line. */
function problemsIn(text: string): string[] {
  const error = refusalOf(text);
  expect(error.code).toBe('policy_invalid');
  const [head, ...problems] = error.message.split('\n');
  expect(head).toBe(
    `Cannot use policy p.yaml: ${problems.length === 1 ? '1 problem' : `${problems.length} problems`}:`,
  );
  return problems.map((problem) => problem.trim());
}

describe('a good policy', () => {
  const text = textWith(() => undefined);

  test('human units become numbers', () => {
    const [job] = parsePolicy(text, 'p.yaml').classes;
    expect(job).toMatchObject({
      name: 'work',
      files: { workdir: '/home/user', inputBytes: 1024 ** 3, inputFiles: 10 },
      network: { mode: 'deny' },
      limits: { memoryBytes: 1024 ** 3, diskBytes: 10_000_000_000, execMs: 600_000, outputBytes: 65_536 },
      lifetime: { wallMs: 900_000, idleMs: 300_000 },
    });
  });

  test('is named by the sha256 of its text, and keeps the order of its classes', () => {
    const two = textWith((tree) => Object.assign(tree.classes, { apart: goodTree().classes.work }));
    const policy = parsePolicy(two, 'p.yaml');
    expect(policy.classes.map((job) => job.name)).toEqual(['work', 'apart']);
    expect(parsePolicy(text, 'p.yaml').sha256).toBe(sha256Hex(text));
  });

  test('is frozen to the last leaf', () => {
    const policy = parsePolicy(text, 'p.yaml');
    const [job] = policy.classes;
    expect(() => Object.assign(policy, { version: 2 })).toThrow(TypeError);
    expect(() => Object.assign(job?.limits ?? {}, { pids: 1 })).toThrow(TypeError);
    expect(() => Object.assign(job?.env.set ?? {}, { X: '1' })).toThrow(TypeError);
    expect(() => (policy.classes as unknown[]).push(job)).toThrow(TypeError);
  });

  test('a class of tier process runs on image host', () => {
    const policy = parsePolicy(
      textWith(({ classes: { work } }) => {
        work.isolation = { tier: 'process', atLeast: 'process', root: false };
        work.image = { default: 'host', allow: ['base'] };
      }),
      'p.yaml',
    );
    expect(policy.classes[0]?.image.default).toBe('host');
  });
});

describe('CX-01: what is not understood is refused, never defaulted', () => {
  test.each([
    ['an empty file', '', 'the file is empty; allowed: a policy with version and classes'],
    ['white space', ' \n\n', 'the file is empty; allowed: a policy with version and classes'],
    ['comments only', '# nothing\n', 'no document; allowed: a policy with version and classes'],
    ['null', 'null', 'saw null; allowed: an object with version, classes'],
    ['a list', '[]', 'saw []; allowed: an object with version, classes'],
    ['a word', 'policy', 'saw "policy"; allowed: an object with version, classes'],
    ['no class', 'version: 1\nclasses: {}', 'classes: no class; allowed: at least one job class'],
    ['classes left out', 'version: 1', 'classes: missing; allowed: an object with one row a job class'],
    ['a NUL byte', 'version: 1\0', 'a NUL byte: not a text file'],
    ['two documents', 'version: 1\n---\nversion: 1\n', '2 documents; allowed: one'],
    ['a duplicate key', 'version: 1\nversion: 1\n', 'Map keys must be unique at line 2, column 1'],
    [
      'broken YAML',
      'version: [',
      'Flow sequence in block collection must be sufficiently indented and end with a ] at line 1, column 11',
    ],
    ['a %YAML directive', '%YAML 1.1\n---\nversion: 1\n', 'a %YAML directive; allowed: none, YAML 1.2 is meant'],
    ['an own tag', 'version: !run 1\n', 'Unresolved tag: !run at line 1, column 10'],
    ['a standard tag of another type', 'version: !!binary aGk=\n', 'tag tag:yaml.org,2002:binary; allowed: no tags'],
    ['an anchor', 'version: &v 1\n', 'anchor &v; allowed: no anchors, write the value out'],
  ])('%s', (_name, text, problem) => {
    expect(problemsIn(text)[0]).toBe(problem);
  });

  test('aliases are refused, so that none can multiply (billion laughs)', () => {
    const bomb = 'a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n';
    expect(problemsIn(bomb)).toContain('alias *a; allowed: no aliases, write the value out');
  });

  test('a merge key is an unknown key: YAML 1.2 has none', () => {
    const text = textWith(({ classes: { work } }) => Object.assign(work.limits, { '<<': { pids: 1 } }));
    expect(problemsIn(text)[0]).toMatch(/^classes\.work\.limits: unknown key "<<"; allowed: cpuShares, /);
  });

  const columns = Object.keys(goodTree().classes.work) as (keyof Good['classes']['work'])[];
  test.each(columns)('the column %s is required', (column) => {
    const problems = problemsIn(textWith(({ classes: { work } }) => Reflect.deleteProperty(work, column)));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^classes\\.work\\.${column}: missing; allowed: `));
  });

  const cells = columns.flatMap((column) => {
    const value = goodTree().classes.work[column];
    const isRow = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isRow ? Object.keys(value).map((key) => [column, key] as const) : [];
  });
  test.each(cells)('the cell %s.%s is required', (column, key) => {
    const problems = problemsIn(textWith(({ classes: { work } }) => Reflect.deleteProperty(Object(work[column]), key)));
    expect(problems[0]).toMatch(new RegExp(`^classes\\.work\\.${column}\\.${key}: missing; allowed: `));
  });

  test.each(['isolation', 'image', 'files', 'limits', 'env', 'artifacts', 'lifetime'] as const)(
    'an unknown key in %s',
    (column) => {
      const problems = problemsIn(textWith(({ classes: { work } }) => Object.assign(work[column], { extra: 1 })));
      expect(problems[0]).toMatch(new RegExp(`^classes\\.work\\.${column}: unknown key "extra"; allowed: `));
    },
  );

  test('an unknown column and an unknown key of the file', () => {
    const problems = problemsIn(
      textWith((tree) => {
        Object.assign(tree.classes.work, { gpu: 1 });
        Object.assign(tree, { extends: 'other.yaml' });
      }),
    );
    expect(problems[0]).toMatch(/^classes\.work: unknown key "gpu"; allowed: isolation, image, /);
    expect(problems[1]).toBe('unknown key "extends"; allowed: version, classes');
  });

  test.each([
    ['classes', 'version: 1\nclasses:\n  __proto__: {}\n'],
    ['classes.work.env.set', textWith(() => undefined).replace('HOME:', '__proto__:')],
  ])('__proto__ is a name like no other in %s: refused, not stepped over', (path, text) => {
    expect(problemsIn(text)[0]).toMatch(new RegExp(`^${path}: name "__proto__" not allowed; allowed: `));
  });

  test.each(['Work', '1work', 'my class', 'a.b', '', 'x'.repeat(33)])('a class named %j', (name) => {
    const text = stringify({ version: 1, classes: { [name]: goodTree().classes.work } });
    expect(problemsIn(text)[0]).toContain('name not allowed; allowed: a small letter, then');
  });

  test('all problems are said at once, each by its place', () => {
    const text = textWith(({ classes: { work } }) => {
      Object.assign(work.limits, { memory: '1.5GiB', pids: 4 });
      work.network = 'none';
      work.tools = ['search'];
      Object.assign(work.lifetime, { wall: 30 });
    });
    expect(problemsIn(text)).toEqual([
      'classes.work.network: saw "none"; allowed: deny, or an object with mode, rules, phases, budget',
      'classes.work.limits.memory: saw "1.5GiB"; allowed: a whole number of bytes, alone or with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB ("512MiB"), 32MiB to 16TiB',
      'classes.work.limits.pids: saw 4; allowed: a whole number, 16 to 4194304',
      'classes.work.tools: saw ["search"]; allowed: [] (this release has no tool gateway)',
      'classes.work.lifetime.wall: saw 30; allowed: a whole number with ms, s, m, h or d ("30s", "90m"), 100ms to 24d',
    ]);
  });

  test('of very many problems the first fifty are said and the rest counted', () => {
    const set = Object.fromEntries(Array.from({ length: 80 }, (_, index) => [`${index}X`, 'v']));
    const problems = problemsIn(textWith(({ classes: { work } }) => Object.assign(work.env, { set: set })));
    expect(problems).toHaveLength(51);
    expect(problems.at(-1)).toBe('and 30 more');
  });

  test.each([
    ['version', 2],
    ['version', '1'],
    ['version', true],
  ])('%s %j', (_key, version) => {
    expect(problemsIn(textWith((tree) => Object.assign(tree, { version })))[0]).toMatch(
      /^version: saw .*; allowed: 1$/,
    );
  });

  test.each([
    ['isolation', 'tier', ['gvisor', 'Container', 1, null]],
    ['isolation', 'atLeast', ['none', '']],
    ['isolation', 'root', ['yes', 1, null]],
    ['image', 'default', ['', 'Base', '../base', 'a b', '*', 5, 'x'.repeat(65)]],
    ['image', 'allow', ['base', null, [1], ['*']]],
    ['files', 'inputBytes', ['-1', '2TiB', 1.5, null]],
    ['files', 'inputFiles', ['10', -1, 1.5, 1e9]],
    ['limits', 'cpuShares', [1, 262_145, '1024']],
    ['limits', 'cpuMillis', [9, '2', 1_024_001]],
    ['limits', 'memory', ['31MiB', 0, '17TiB', '1 GiB', null, [], '1gib']],
    ['limits', 'pids', [15, 4_194_305, 'max', Number.NaN]],
    ['limits', 'openFiles', [63, 1_048_577]],
    ['limits', 'disk', ['1023KiB', '1025GiB', '2TiB']],
    ['limits', 'inodes', [63, 100_000_001]],
    ['limits', 'exec', ['99ms', '25d', 600, '10', '0s']],
    ['limits', 'output', ['-1B', '2TiB', 'unlimited']],
    ['artifacts', 'bytes', ['2TiB', null]],
    ['artifacts', 'files', [-1, '10']],
    ['lifetime', 'wall', ['25d', '0s', '1h30m', 'never']],
    ['lifetime', 'idle', ['0s', 'off', 0]],
  ] as const)('%s.%s refuses %j', (column, key, values) => {
    for (const value of values) {
      const problems = problemsIn(textWith(({ classes: { work } }) => Object.assign(work[column], { [key]: value })));
      expect(problems[0], String(value)).toMatch(
        new RegExp(`^classes\\.work\\.${column}\\.${key}.*: saw .*; allowed: `),
      );
    }
  });
});

describe('network rules', () => {
  const rulesOf = (rules: readonly unknown[]) =>
    textWith(({ classes: { work } }) => Object.assign(work, { network: { mode: 'allow', rules } }));

  test('are told apart by the line in which they stand', () => {
    const text = `${rulesOf([{ id: 'web', hosts: ['a.example'] }, { hosts: ['b.example'] }])}`;
    const policy = parsePolicy(text, 'p.yaml');
    const lines = text.split('\n');
    expect(lines[(ruleLine(policy, 'work', 'web') ?? 0) - 1]).toContain('- id: web');
    expect(lines[(ruleLine(policy, 'work', 'rule-2') ?? 0) - 1]).toContain('- hosts:');
    expect(ruleLine(policy, 'work', 'rule-1')).toBeUndefined();
    expect(ruleLine(policy, 'toString', 'web')).toBeUndefined();
    expect(Object.isFrozen(policy.ruleLines[0])).toBe(true);
  });

  test('have lines on one line, too, and after a byte order mark', () => {
    const text = `\ufeff# one\r\n${JSON.stringify(goodTree()).replace('"deny"', '{"mode":"allow","rules":[{"id":"web","hosts":["a.example"]}]}')}`;
    expect(ruleLine(parsePolicy(text, 'p.yaml'), 'work', 'web')).toBe(2);
  });

  test('that are wrong are refused by their whole place', () => {
    expect(problemsIn(rulesOf([{ hosts: ['a.example'] }, { hosts: ['*'] }]))[0]).toMatch(
      /^classes\.work\.network\.rules\[1\]\.hosts\[0\]: saw "\*"; allowed: /,
    );
  });

  test('may be a thousand, with much to say each', () => {
    const rules = Array.from({ length: 1000 }, (_, index) => ({
      ...{ id: `rule-number-${index}`, hosts: [`a${index}.example`, `*.b${index}.example`], ports: [443, 8443] },
      ...{ methods: ['GET', 'HEAD'], paths: ['/simple/**', '/packages/*'], inspect: 'always' },
      ...{
        budget: { connections: 10, requests: 10, up: '1MiB', down: '1GiB' },
        bandwidth: { up: '1MiB', down: '1MiB' },
      },
    }));
    const [job] = parsePolicy(rulesOf(rules), 'p.yaml').classes;
    expect(job?.network).toMatchObject({ rules: expect.objectContaining({ length: 1000 }) });
  });
});

describe('rules between columns', () => {
  test.each([
    [
      'the weakest tier is not stronger than the default',
      { isolation: { tier: 'process', atLeast: 'container', root: false }, image: { default: 'host', allow: [] } },
      'classes.work.isolation.atLeast: saw "container"; allowed: not stronger than tier "process"',
    ],
    [
      'tier process runs on image host',
      { isolation: { tier: 'process', atLeast: 'process', root: false } },
      'classes.work.image.default: saw "base"; allowed: "host", the only image of tier process',
    ],
    [
      'tier container does not run on image host',
      { image: { default: 'host', allow: [] } },
      'classes.work.image.default: saw "host"; allowed: an image of tier container',
    ],
    [
      'image host is not one to choose',
      { image: { default: 'base', allow: ['host'] } },
      'classes.work.image.allow: saw "host"; allowed: images of tier container; tier process always runs on "host"',
    ],
    [
      'an exec lasts no longer than its sandbox',
      { lifetime: { wall: '9m', idle: '5m' } },
      'classes.work.limits.exec: saw 10m; allowed: at most lifetime.wall, 9m',
    ],
    [
      'the idle time is no longer than the life',
      { lifetime: { wall: '15m', idle: '16m' } },
      'classes.work.lifetime.idle: saw 16m; allowed: at most lifetime.wall, 15m',
    ],
  ])('%s', (_name, change, problem) => {
    expect(problemsIn(textWith((tree) => Object.assign(tree.classes.work, change)))).toEqual([problem]);
  });
});

describe('CX-03: over-wide entries are refused', () => {
  test.each(['*', '_*', '**', 'A*', '*_A', 'APP_*_*', 'APP_?', '', ' ', 'A-B', '1A'])('env.allow %j', (pattern) => {
    const problems = problemsIn(textWith(({ classes: { work } }) => Object.assign(work.env, { allow: [pattern] })));
    expect(problems[0]).toMatch(
      /^classes\.work\.env\.allow\[0\]: saw ".*"; allowed: .*"\*" alone would allow everything$/,
    );
  });

  test.each(['A', 'APP_*', 'A_*', '_PRIVATE', 'lower', 'LD_PRELOAD'])('env.allow %j is narrow enough', (pattern) => {
    const policy = parsePolicy(
      textWith(({ classes: { work } }) => Object.assign(work.env, { allow: [pattern] })),
      'p.yaml',
    );
    expect(policy.classes[0]?.env.allow).toEqual([pattern]);
  });

  test.each([
    '/',
    '',
    'home',
    '/home/',
    '//home',
    '/home/..',
    '/home/./x',
    '/proc/self',
    '/sys',
    '/dev/shm',
    '/usr/lib',
    '/inputs/x',
  ])('files.workdir %j', (workdir) => {
    const problems = problemsIn(textWith(({ classes: { work } }) => Object.assign(work.files, { workdir })));
    expect(problems[0]).toMatch(/^classes\.work\.files\.workdir: saw /);
  });

  test.each(['*', 'all', 'any', ['*'], { allow: ['*'] }, '0.0.0.0/0', true, null])(
    'packages and secrets %j',
    (value) => {
      for (const column of ['packages', 'secrets'] as const) {
        const problems = problemsIn(textWith(({ classes: { work } }) => Object.assign(work, { [column]: value })));
        expect(problems[0]).toMatch(
          new RegExp(`^classes\\.work\\.${column}: saw .*; allowed: none \\(this release has no `),
        );
      }
    },
  );
});

describe('env.set', () => {
  test.each([
    ['a number', { A: 1 }],
    ['a truth value', { A: true }],
    ['nothing', { A: null }],
    ['a NUL byte', { A: 'x\0y' }],
    ['more than the kernel takes', { A: 'x'.repeat(131_072) }],
    ['a name with "="', { 'A=B': 'x' }],
    ['more than 256KiB together', { A: 'x'.repeat(130_000), B: 'x'.repeat(130_000), C: 'x'.repeat(10_000) }],
  ])('refuses %s', (_name, set) => {
    const problems = problemsIn(
      textWith(({ classes: { work } }) => Object.assign(work.env, { set: set })).replaceAll('\0', '\\0'),
    );
    expect(problems[0]).toMatch(/^classes\.work\.env\.set/);
  });
});

test('any YAML value in any cell is accepted or refused by name, and never throws anything else', () => {
  const columns = Object.keys(goodTree().classes.work);
  fc.assert(
    fc.property(fc.constantFrom(...columns), fc.jsonValue({ maxDepth: 2 }), (column, value) => {
      const text = textWith((tree) => Object.assign(tree.classes.work, { [column]: value }));
      try {
        parsePolicy(text, 'p.yaml');
      } catch (error) {
        expect(error).toBeInstanceOf(SallyportError);
      }
    }),
  );
});
