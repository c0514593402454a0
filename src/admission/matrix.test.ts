import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { matrixJson, matrixTable, renderMatrix } from './matrix.ts';
import { parsePolicy } from './policy.ts';

const shipped = readFileSync(new URL('../../policies/default.yaml', import.meta.url), 'utf8');
const policy = parsePolicy(shipped, 'policies/default.yaml');

describe('the table', () => {
  test('has a column a class and a row a key, named as in the file and in refusals', () => {
    const { headers, rows } = matrixTable(policy);
    expect(headers).toEqual(['', 'analysis', 'coding', 'evaluation', 'build']);
    expect(rows.find(([key]) => key === 'limits.memory')).toEqual(['limits.memory', '1GiB', '2GiB', '1GiB', '4GiB']);
    expect(rows.find(([key]) => key === 'lifetime.wall')).toEqual(['lifetime.wall', '15m', '4h', '30m', '2h']);
    expect(rows.find(([key]) => key === 'network')).toEqual(['network', 'deny', 'deny', 'deny', 'deny']);
    expect(new Set(rows.map(([key]) => key)).size).toBe(rows.length);
    for (const row of rows) expect(row).toHaveLength(headers.length);
  });

  test('leaves no cell of a class out', () => {
    const { classes } = matrixJson(policy);
    const cells = Object.entries(Object.values(classes)[0] ?? {}).flatMap(([column, value]) =>
      Array.isArray(value) || 'mode' in value ? [column] : Object.keys(value).map((key) => `${column}.${key}`),
    );
    expect(matrixTable(policy).rows).toHaveLength(cells.length);
  });
});

describe('the network', () => {
  const network = [
    'network:',
    '      mode: observe',
    '      phases: [install, locked]',
    '      budget: { connections: 100, down: 1GiB }',
    '      rules:',
    '        - { id: pypi, hosts: [pypi.example, "*.files.example"], methods: [GET, HEAD], paths: [/simple/**], phases: [install] }',
    '        - { id: api, hosts: [api.example], budget: { up: 1MiB }, bandwidth: { down: 10MiB } }',
    '        - { id: pinned, hosts: [p.example], inspect: never, noSni: true, ech: true }',
    '        - { id: db, cidrs: [10.0.0.0/24], private: true, ports: [5432, 6000-6010] }',
    '        - { id: no, hosts: [old.files.example], verdict: deny }',
    '        - { id: no-mail, cidrs: [0.0.0.0/0], ports: [25], verdict: deny }',
  ].join('\n');
  const open = parsePolicy(shipped.replace('network: deny', network), 'p.yaml');
  const [, cell = ''] = matrixTable(open).rows.find(([key]) => key === 'network') ?? [];

  test('is a mode, what holds for all rules, and a line a rule', () => {
    expect(cell.split('\n')).toEqual([
      'observe',
      'phases install → locked',
      'in all connections 100 down 1GiB',
      '- pypi: allow https pypi.example *.files.example port 443, GET HEAD, /simple/**, opened, phase install',
      '- api: allow https api.example port 443, sealed, at most up 1MiB, down 10MiB/s',
      '- pinned: allow https p.example port 443, without server name, with encrypted hello, sealed',
      '- db: allow tcp 10.0.0.0/24 (private) port 5432 6000-6010',
      '- no: deny old.files.example any port',
      '- no-mail: deny 0.0.0.0/0 port 25',
    ]);
  });

  test('says it when there is no rule', () => {
    const empty = parsePolicy(shipped.replace('network: deny', 'network: { mode: allow, rules: [] }'), 'p.yaml');
    expect(matrixTable(empty).rows.find(([key]) => key === 'network')?.[1]).toBe('allow, no rule');
  });

  test('is drawn whole, a thousand rules too', () => {
    const rules = Array.from({ length: 1000 }, (_, index) => `{ hosts: [h${index}.example] }`).join(', ');
    const many = parsePolicy(shipped.replace('network: deny', `network: { mode: allow, rules: [${rules}] }`), 'p.yaml');
    expect(renderMatrix(many, { width: 200 })).toContain('- rule-1000: allow https h999.example');
  });

  test('is whole in the JSON', () => {
    expect(matrixJson(open)).toHaveProperty('classes.analysis.network', open.classes[0]?.network);
  });
});

describe('the drawing', () => {
  test.each([40, 60, 80, 100, 120, 200])('at %d columns it is no wider, and cuts nothing', (width) => {
    const text = renderMatrix(policy, { width });
    for (const line of text.split('\n')) {
      if (line.startsWith('sha256') || line.startsWith('policy')) continue;
      expect(line.length, line).toBeLessThanOrEqual(width);
    }
    expect(text).not.toContain('…');
    for (const name of ['analysis', 'coding', 'evaluation', 'build']) expect(text).toContain(`│ ${name} `);
    expect(text.replace(/[│\s]/g, '')).toContain('TASK_*');
  });

  test('at 120 columns the four classes stand side by side', () => {
    const [, head = ''] = renderMatrix(policy, { width: 120 }).split('\n');
    expect(head.split('│').map((cell) => cell.trim())).toEqual([
      '',
      '',
      'analysis',
      'coding',
      'evaluation',
      'build',
      '',
    ]);
  });

  test('names the file and its digest', () => {
    const text = renderMatrix(policy, { width: 120 });
    expect(text).toContain('policy policies/default.yaml\n');
    expect(text.endsWith(`sha256 ${policy.sha256}\n`)).toBe(true);
  });

  test('shows control characters and wide characters of a value as escapes', () => {
    const text = shipped.replace('LANG: C.UTF-8', 'LANG: "\\e[31m漢"');
    expect(renderMatrix(parsePolicy(text, 'p.yaml'), { width: 200 })).toContain('LANG=\\u{1b}[31m\\u{6f22}');
  });

  test('a long value without spaces is wrapped whole', () => {
    const value = 'x'.repeat(30_000);
    const text = renderMatrix(parsePolicy(shipped.replace('LANG: C.UTF-8', `LANG: ${value}`), 'p.yaml'), {
      width: 120,
    });
    expect(text.match(/x/g)?.length).toBeGreaterThanOrEqual(30_000);
    expect(text).not.toContain('…');
  });
});

describe('the JSON', () => {
  test('holds base units, and no path of the host (HX-23)', () => {
    const json = matrixJson(parsePolicy(shipped, '/srv/secret-place/policy.yaml'));
    expect(json.sha256).toBe(policy.sha256);
    expect(json).toHaveProperty('classes.coding.limits.outputBytes', 4 * 1024 ** 3);
    expect(json).not.toHaveProperty('classes.coding.name');
    expect(JSON.stringify(json)).not.toContain('/srv/secret-place');
  });
});
