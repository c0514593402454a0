import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { attemptOfUrl } from './attempt-of-url.ts';

describe('a URL as an attempt', () => {
  it('of https names the host in the ClientHello and in the request', () => {
    expect(attemptOfUrl('https://A.example/x/y?q=1#f')).toEqual({
      target: { kind: 'host', host: 'a.example' },
      port: 443,
      content: {
        protocol: 'tls',
        serverName: 'a.example',
        encryptedHello: false,
        request: { host: 'a.example', port: 443, method: 'GET', path: '/x/y', websocket: false },
      },
    });
  });

  it.each([
    ['http://a.example', { port: 80, content: { protocol: 'http', request: { path: '/', websocket: false } } }],
    ['http://a.example:8080/', { port: 8080, content: { request: { port: 8080 } } }],
    ['HTTPS://a.example.', { port: 443, target: { host: 'a.example' } }],
    [
      'wss://a.example/socket',
      { port: 443, content: { protocol: 'tls', request: { websocket: true, path: '/socket' } } },
    ],
    ['ws://a.example:1', { port: 1, content: { protocol: 'http', request: { websocket: true } } }],
    ['tcp://db.example:5432', { port: 5432, content: { protocol: 'raw' } }],
    ['tcp://[2001:db8::1]:22', { port: 22, target: { kind: 'address', address: { text: '2001:db8::1' } } }],
    ['https://192.0.2.1/', { target: { kind: 'address', address: { text: '192.0.2.1' } } }],
    ['https://[::ffff:192.0.2.1]/', { target: { kind: 'address', address: { text: '192.0.2.1' } } }],
    ['https://bücher.example', { target: { host: 'xn--bcher-kva.example' } }],
    ['https://a.example?q', { content: { request: { path: '/' } } }],
  ])('is read from %s', (url, expected) => {
    expect(attemptOfUrl(url)).toMatchObject(expected);
  });

  it('takes the method that is given', () => {
    expect(attemptOfUrl('https://a.example', 'PUT')).toMatchObject({ content: { request: { method: 'PUT' } } });
  });

  it('to an address names no host', () => {
    const attempt = attemptOfUrl('https://192.0.2.1/');
    expect(attempt).toMatchObject({ content: { encryptedHello: false } });
    expect(JSON.stringify(attempt)).not.toMatch(/serverName|"host":"192/);
  });

  it('keeps the path as it is: nothing is resolved that a client might not resolve', () => {
    for (const path of ['/a/../b', '/%2e%2e/b', '//b', '/a\\b', '/é']) {
      expect(attemptOfUrl(`https://a.example${path}`)).toMatchObject({ content: { request: { path } } });
    }
  });

  it.each([
    ...[
      '',
      'a.example',
      '//a.example',
      '/x',
      'https:a.example',
      'https:/a.example',
      'https://',
      'https:///x',
      'https://:443/',
    ],
    ...[
      'ftp://a.example',
      'javascript://a.example',
      'file:///etc/passwd',
      '__proto__://a.example',
      'constructor://a.example',
    ],
    ...[
      'https://u@a.example',
      'https://u:p@a.example',
      'https://a.example@o.example',
      'https://a.example:0',
      'https://a.example:65536',
    ],
    ...[
      'https://a.example:',
      'https://a.example:x',
      'https://a.example:1:2',
      'https://a b',
      'https://a.example\\@o.example',
    ],
    ...[
      'https://*.a.example',
      'https://a..example',
      'https://a%2eexample',
      'tcp://a.example',
      'tcp://a.example:1/x',
      'tcp://a.example:1?q',
    ],
    ...[
      'https://2130706433/',
      'https://0x7f000001/',
      'https://0177.0.0.1/',
      'https://127.1/',
      'https://127.0.0.1./',
      'https://①.1.1.1',
    ],
    ...[
      'https://[::1%25lo]/',
      'https://::1/',
      'https://[127.0.0.1]/',
      'https://[a.example]/',
      'https://[::FFFF:1.2.3.4]/',
      'https://[]/',
    ],
  ])('is not read from %j (NX-05)', (url) => {
    expect(attemptOfUrl(url)).toEqual({ problem: expect.any(String) });
  });

  it('is read whole or is a problem, whatever the text', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.webUrl(),
          fc.webUrl().map((url) => `${url}@x`),
        ),
        (url) => {
          const attempt = attemptOfUrl(url);
          if ('problem' in attempt) expect(attempt.problem).not.toBe('');
          else expect(attempt.port).toBeGreaterThan(0);
        },
      ),
    );
  });
});
