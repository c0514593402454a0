import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { labelsOf, parseHostName } from './host-name.ts';

describe('a host name', () => {
  it.each([
    ['example.org', 'example.org'],
    ['EXAMPLE.Org', 'example.org'],
    ['example.org.', 'example.org'],
    ['localhost', 'localhost'],
    ['a', 'a'],
    ['_dmarc.example.org', '_dmarc.example.org'],
    ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['ｅｘａｍｐｌｅ。org', 'example.org'],
    ['1.example', '1.example'],
    ['0x1.example', '0x1.example'],
    [`${'a'.repeat(63)}.example`, `${'a'.repeat(63)}.example`],
  ])('is read from %j', (text, name) => {
    expect(parseHostName(text)).toBe(name);
  });

  it.each([
    ...['', '.', '..', 'a..b', '.a', 'a..', '-a.example', 'a-.example', ' a', 'a ', 'a b', 'a\tb', 'a\nb', 'a\r\nb'],
    ...[
      'evil.example\0.allowed.example',
      'a\0',
      'a/b',
      'a\\b',
      'a@b',
      'a:80',
      'a?b',
      'a#b',
      'a%2eb',
      '[::1]',
      '::1',
      '*',
      '*.a.b',
    ],
    ...[
      `${'a'.repeat(64)}.example`,
      `${'a.'.repeat(127)}aa`,
      'a'.repeat(255),
      'ü'.repeat(2000),
      '\u00ad',
      '\ud800.example',
    ],
  ])('is not read from %j (NX-27)', (text) => {
    expect(parseHostName(text)).toBeUndefined();
  });

  it.each([
    ...[
      '127.0.0.1',
      '127.0.0.1.',
      '2130706433',
      '0x7f000001',
      '0X7F000001',
      '0177.0.0.1',
      '127.1',
      '127.0x1',
      '0.0.0.0',
    ],
    ...[
      '017700000001',
      '0',
      '0x',
      '1.2.3.4.5',
      'example.1',
      'example.0x1f',
      '256.256.256.256',
      '１２７.0.0.1',
      '①②⑦.⓪.⓪.①',
    ],
    ...['127。0。0。1', '127.0.0.1%lo', '127.0.0.0x1.', '0x7f.1', '0x7f.0.0.1.'],
  ])('is not read from %j, an address to somebody (NX-05)', (text) => {
    expect(parseHostName(text)).toBeUndefined();
  });

  it('is at most 253 bytes long', () => {
    const longest = `${'a'.repeat(49)}.`.repeat(5).slice(0, -1);
    expect(parseHostName(`${longest}.abc`)).toHaveLength(253);
    expect(parseHostName(`${longest}.abc.`)).toHaveLength(253);
    expect(parseHostName(`${longest}.abcd`)).toBeUndefined();
  });

  it('is read again to itself, whatever it was read from', () => {
    const text = fc.oneof(
      fc.string(),
      fc.string({ unit: 'grapheme' }),
      fc.domain(),
      fc.stringMatching(/^[\w.-]{1,40}$/),
    );
    fc.assert(
      fc.property(text, (candidate) => {
        const name = parseHostName(candidate);
        if (name === undefined) return;
        expect(parseHostName(name)).toBe(name);
        expect(parseHostName(`${name.toUpperCase()}.`)).toBe(name);
        expect(name).toMatch(/^[a-z0-9_.-]{1,253}$/);
        for (const label of labelsOf(name)) expect(label.length).toBeGreaterThan(0);
      }),
    );
  });

  it('is never one that the URL standard takes for an address', () => {
    const number = fc.oneof(
      fc.nat(0xffffffff).map(String),
      fc.nat(0xffff).map((n) => `0x${n.toString(16)}`),
      fc.nat(0xffff).map((n) => `0${n.toString(8)}`),
    );
    const text = fc.array(number, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('.'));
    fc.assert(
      fc.property(text, (candidate) => {
        expect(parseHostName(candidate)).toBeUndefined();
      }),
    );
  });
});
