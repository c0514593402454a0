import { describe, expect, it } from 'vitest';
import { type RequestHead, readRequest } from './request.ts';

function head(changes: Partial<RequestHead> = {}, headers: readonly string[] = []): RequestHead {
  return { method: 'GET', url: '/', rawHeaders: ['Host', 'a.example', ...headers], ...changes };
}

function kindOf(request: RequestHead): string {
  return readRequest(request).kind;
}

describe('a request', () => {
  it('is read as method, path without its query, host and port', () => {
    const read = readRequest(head({ method: 'POST', url: '/a/b?c=d', rawHeaders: ['host', 'A.example:8080'] }));
    expect(read).toEqual({
      kind: 'request',
      query: '?c=d',
      authority: 'A.example:8080',
      request: { host: 'a.example', port: 8080, method: 'POST', path: '/a/b', websocket: false },
    });
  });

  it('to an address names no host', () => {
    expect(readRequest(head({ rawHeaders: ['Host', '192.0.2.1:80'] }))).toMatchObject({ request: { port: 80 } });
    expect(readRequest(head({ rawHeaders: ['Host', '[2001:db8::1]'] }))).not.toHaveProperty('request.host');
  });

  it('that would become a WebSocket says so', () => {
    expect(readRequest(head({}, ['Connection', 'Upgrade', 'Upgrade', 'WebSocket']))).toMatchObject({
      request: { websocket: true },
    });
  });

  it('of HTTP/2 takes its host from :authority', () => {
    const read = readRequest({ method: 'GET', url: '/', rawHeaders: [], authority: 'a.example' });
    expect(read).toMatchObject({ request: { host: 'a.example' } });
  });

  it.each([
    'http://evil.example/',
    '//evil.example/',
    '/a\\b',
    '/a#b',
    '/a b',
    '/ä',
    '',
    'a',
    '*',
    '/a\u0000b',
    '/<x>',
  ])('NX-24: with the target %j has more than one reading, but for those that paths judge', (url) => {
    // a leading "//" is a path to RFC 9112; the rules refuse it where they look at paths
    expect(kindOf(head({ url }))).toBe(url.startsWith('//') ? 'request' : 'ambiguous');
  });

  it.each([
    ['no Host', []],
    ['two Hosts', ['Host', 'a.example', 'Host', 'b.example']],
    ['two like Hosts', ['Host', 'a.example', 'host', 'a.example']],
    ['a Host that is none', ['Host', 'a.example@evil.example']],
    ['a Host with a NUL', ['Host', 'evil.example\u0000.a.example']],
    ['a Host with a soft hyphen', ['Host', 'a\u00ad.example']],
    ['a Host with a path', ['Host', 'a.example/x']],
    ['an empty Host', ['Host', '']],
    ['a Host in numbers', ['Host', '2130706433']],
  ])('NX-17, NX-27: with %s is refused', (_name, rawHeaders) => {
    expect(kindOf(head({ rawHeaders }))).toBe('ambiguous');
  });

  it.each([
    ['two lengths', ['Content-Length', '1', 'Content-Length', '2']],
    ['a length and chunks', ['Content-Length', '1', 'Transfer-Encoding', 'chunked']],
    ['chunks twice', ['Transfer-Encoding', 'chunked', 'Transfer-Encoding', 'chunked']],
    ['a vertical tab before chunked', ['Transfer-Encoding', '\u000bchunked']],
    ['another encoding', ['Transfer-Encoding', 'gzip, chunked']],
    ['a line break in a value', ['X', 'a\r\nHost: evil.example']],
    ['a length that Connection names', ['Connection', 'content-length', 'Content-Length', '9']],
    ['a Host that Connection names', ['Connection', 'close, HOST']],
    ['more headers than are read', Array.from({ length: 512 }, () => 'x')],
    ['h2c', ['Connection', 'Upgrade', 'Upgrade', 'h2c']],
    ['two upgrades', ['Upgrade', 'websocket', 'Upgrade', 'h2c']],
  ])('NX-21, NX-23: with %s is refused', (_name, headers) => {
    expect(kindOf(head({}, headers))).toBe('ambiguous');
  });

  it.each(['CONNECT', 'get', 'G T', ''])('NX-30: of method %j is refused', (method) =>
    expect(kindOf(head({ method }))).toBe('ambiguous'),
  );

  it('of HTTP/2 whose Host is another than its :authority is refused', () => {
    const rawHeaders = ['host', 'evil.example'];
    expect(kindOf({ method: 'GET', url: '/', rawHeaders, authority: 'a.example' })).toBe('ambiguous');
  });
});
