import { describe, expect, it } from 'vitest';
import { forwardable, headBytes } from './headers.ts';

describe('headers on their way through', () => {
  it('keep their order, case and repetitions', () => {
    const raw = ['X-B', '1', 'x-a', '2', 'X-B', '3', 'Set-Cookie', 'a', 'Set-Cookie', 'b'];
    expect(forwardable(raw)).toEqual([
      ['X-B', '1'],
      ['x-a', '2'],
      ['X-B', '3'],
      ['Set-Cookie', 'a'],
      ['Set-Cookie', 'b'],
    ]);
  });

  it('lose what belongs to the hop, and what Connection names', () => {
    const raw = [
      'Connection',
      'close, X-Hop',
      'X-Hop',
      '1',
      'Keep-Alive',
      'x',
      'TE',
      'trailers',
      'Transfer-Encoding',
      'chunked',
      'Proxy-Authorization',
      's',
      'Upgrade',
      'h2c',
      'X-End',
      '2',
    ];
    expect(forwardable(raw)).toEqual([['X-End', '2']]);
  });

  it('of HTTP/2 lose the pseudo ones', () => {
    expect(forwardable([':method', 'GET', ':path', '/', 'accept', '*'])).toEqual([['accept', '*']]);
  });

  it('are charged by their length', () => expect(headBytes(['a', 'bc'])).toBe(39));
});
