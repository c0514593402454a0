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
    expect(rows.find(([key]) => key === 'network')).toEqual(['network', 'none', 'none', 'none', 'none']);
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
