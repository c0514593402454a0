/** Lock files: read, written, compared. */
import { describe, expect, it } from 'vitest';
import { formatPackageList, packageDifferences, parsePackageList } from './package-list.ts';

it('reads what it writes, sorted', () => {
  const list = new Map([
    ['libc6', '2.36-9'],
    ['bash', '5.2=x'],
  ]);
  expect(formatPackageList(list)).toBe('bash=5.2=x\nlibc6=2.36-9\n');
  expect(parsePackageList(formatPackageList(list))).toEqual(list);
});

it('skips comments and empty lines', () => {
  expect(parsePackageList('# a lock\n\n bash=1 \r\n')).toEqual(new Map([['bash', '1']]));
});

describe('differences', () => {
  const locked = parsePackageList('bash=1\ncurl=1\ngit=1\n');
  it('are none between equals', () => expect(packageDifferences(locked, locked)).toEqual([]));
  it('name what is new, gone and changed', () => {
    expect(packageDifferences(locked, parsePackageList('bash=1\ncurl=2\nsudo=1\n'))).toEqual([
      'curl is 2 here, 1 in the lock',
      'git 1 is in the lock, not in the image',
      'sudo 1 is not in the lock',
    ]);
  });
});
