/** Which of a host's apt sources an image is built from. */
import { describe, expect, it } from 'vitest';
import { releaseSources } from './apt-sources.ts';

const deb822 = (text: string): string => releaseSources([{ name: 'x.sources', text }], 'bookworm');
const oneLine = (text: string): string => releaseSources([{ name: 'sources.list', text }], 'bookworm');

describe('deb822', () => {
  it('keeps mirror, suites and key of the release', () => {
    const text = `# comment\nTypes: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\n# another\nComponents: main\nSigned-By: /usr/share/keyrings/k.gpg\n`;
    expect(deb822(text)).toBe(
      'Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By: /usr/share/keyrings/k.gpg\n',
    );
  });
  it('keeps a key that stands in the stanza itself', () => {
    const text =
      'Types: deb\nURIs: http://m.example/\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN\n .\n -----END\n';
    expect(deb822(text)).toContain('Signed-By: \n -----BEGIN\n .\n -----END\n');
  });
  it('leaves out other vendors, backports, sources and what is disabled', () => {
    const stanza = (fields: string): string => `Types: deb\nURIs: http://m.example/\n${fields}\n`;
    expect(deb822(stanza('Suites: nodistro\nComponents: main'))).toBe('');
    expect(deb822(stanza('Suites: cloud-sdk-bookworm\nComponents: main'))).toBe('');
    expect(deb822(stanza('Suites: bookworm-backports\nComponents: main'))).toBe('');
    expect(deb822(stanza('Suites: bookworm\nComponents: stable'))).toBe('');
    expect(deb822(stanza('Suites: bookworm\nComponents: main\nEnabled: no'))).toBe('');
    expect(deb822('Types: deb-src\nURIs: http://m.example/\nSuites: bookworm\nComponents: main\n')).toBe('');
  });
  it('narrows the components to main', () => {
    expect(
      deb822('Types: deb\nURIs: http://m.example/\nSuites: bookworm\nComponents: main contrib non-free\n'),
    ).toContain('Components: main\n');
  });
});

describe('one source a line', () => {
  it('is read with and without options', () => {
    expect(oneLine('deb http://m.example/debian bookworm main contrib # here\n')).toBe(
      'Types: deb\nURIs: http://m.example/debian\nSuites: bookworm\nComponents: main\n',
    );
    expect(oneLine('deb [arch=amd64 signed-by=/k.gpg] http://m.example bookworm-security main')).toContain(
      'Signed-By: /k.gpg\n',
    );
  });
  it('leaves out comments, deb-src and installation discs', () => {
    expect(oneLine('# deb http://m.example bookworm main\ndeb-src http://m.example bookworm main\n')).toBe('');
    expect(oneLine('deb cdrom:[Debian]/ bookworm main')).toBe('');
  });
});
