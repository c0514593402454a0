/** YAML that would be too much for the parser is refused before it sees it, and what is not is parsed. */
import { describe, expect, test } from 'vitest';
import { readYaml } from './policy-yaml.ts';

function problemsOf(text: string): readonly string[] {
  const result = readYaml(text);
  return result.ok ? [] : result.problems;
}

describe('CX-01: YAML', () => {
  const lines = <T>(count: number, line: (index: number) => T) => Array.from({ length: count }, (_, at) => line(at));
  const deep: [string, (levels: number) => string][] = [
    ['nested lists', (levels) => '['.repeat(levels)],
    ['nested lists over lines', (levels) => '[\n'.repeat(levels)],
    ['nested objects', (levels) => '{a: '.repeat(levels)],
    ['nested block lists', (levels) => '- '.repeat(levels)],
    ['nested keys', (levels) => '? '.repeat(levels)],
    ['keys of keys', (levels) => 'a: '.repeat(levels)],
    ['keys of keys in brackets', (levels) => `{${'a: '.repeat(levels)}`],
    ['indented keys', (levels) => lines(levels, (at) => `${' '.repeat(at)}a:`).join('\n')],
    ['indented lists of lists', (levels) => lines(levels, (at) => `${' '.repeat(at)}- - -`).join('\n')],
  ];
  test.each(deep)('%s are refused before the recursive parser sees them', (_name, nested) => {
    for (const levels of [300, 1400]) {
      expect(problemsOf(nested(levels))).toEqual(['nested or indented deeper than 256; allowed: at most 256']);
    }
  });

  test.each(deep)('%s that go a little way are left to the parser', (_name, nested) => {
    expect(problemsOf(nested(50)).filter((problem) => problem.includes('nested or indented'))).toEqual([]);
  });

  test.each([
    ['keys', (index: number) => `k${index}: 1\n`],
    ['brackets', () => '[]'],
    ['commas', (index: number) => (index === 0 ? '[' : ',')],
    ['comments', () => '#\n'],
  ])('very many %s are refused before anything is made of them', (_name, line) => {
    expect(problemsOf(lines(260_000, line).join('').slice(0, 1_048_576))).toEqual([
      'more than 250000 YAML words; allowed: at most 250000',
    ]);
  });

  test('of very many mistakes in the YAML the first fifty are said and the rest counted', () => {
    const problems = problemsOf(`[${','.repeat(20_000)}`);
    expect(problems).toHaveLength(51);
    expect(problems[0]).toBe('Unexpected , in flow sequence at line 1, column 3');
  });

  test('very many duplicate keys are found in time', () => {
    const problems = problemsOf('k: 1\n'.repeat(30_000));
    expect([problems[0], problems.at(-1)]).toEqual(['Map keys must be unique at line 2, column 1', 'and 29949 more']);
  });

  test('a JSON object of one line may be long', () => {
    expect(problemsOf(JSON.stringify(lines(1000, (at) => ({ [`k${at}`]: [at] }))))).toEqual([]);
  });
});
