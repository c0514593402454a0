import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { classify } from './classify.ts';

const kindOf = (text: string): string => classify(Buffer.from(text, 'latin1')).kind;

describe('first bytes', () => {
  it.each([
    ['', 'more'],
    ['G', 'more'],
    ['GET', 'more'],
    ['GET /', 'http'],
    ['UPDATEREDIRECTREF /', 'http'],
    ['PRI * HTTP/2.0', 'http'],
    ['get / HTTP/1.1', 'raw'],
    ['\u0005\u0001\u0000', 'raw'],
    ['SSH-2.0-OpenSSH_9', 'raw'],
    ['AAAAAAAAAAAAAAAAAAAAAAAAAA', 'raw'],
    ['\u0000\u0000\u0000\u0008\u0004\u00d2\u0016\u002f', 'raw'],
    ['\u0016', 'more'],
    ['\u0016\u0003\u0001\u0000\u0000', 'malformed'],
  ])('%j are %s', (text, kind) => expect(kindOf(text)).toBe(kind));

  it('once they are known stay what they are, however many more come', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 80 }), fc.uint8Array({ maxLength: 80 }), (first, more) => {
        const early = classify(Buffer.from(first));
        if (early.kind === 'more' || early.kind === 'tls') return;
        expect(classify(Buffer.concat([first, more])).kind).toBe(early.kind);
      }),
    );
  });
});
