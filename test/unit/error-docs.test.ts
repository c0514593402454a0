/** docs/errors.md has one heading a code and says what the table says: the two cannot drift apart. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { errorTable } from '../../src/errors/table.ts';

const page = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8');
const sections = new Map(
  page
    .split('\n## ')
    .slice(1)
    .map((section) => [section.split('\n')[0] ?? '', section]),
);

describe('docs/errors.md', () => {
  it('names every code once, in the order of the table', () => {
    expect([...sections.keys()]).toEqual(Object.keys(errorTable));
  });

  it.each(Object.entries(errorTable))('says status, retry and next step of %s', (code, { status, retry, next }) => {
    const section = sections.get(code) ?? '';
    expect(section).toContain(`Status ${status}`);
    expect(section).toContain(retry ? 'may succeed later' : 'will fail again');
    expect(section).toContain(next);
  });
});
