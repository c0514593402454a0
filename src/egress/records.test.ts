import { describe, expect, it } from 'vitest';
import { EgressLog, keptRecords, printable } from './records.ts';

const denied = { kind: 'dns', verdict: 'deny' } as const;

describe('the flow log', () => {
  it('numbers its entries without gaps, and gives those after a number', () => {
    const log = new EgressLog();
    for (let index = 0; index < 3; index++) log.add(denied);
    expect(log.read().map(({ sequence }) => sequence)).toEqual([1, 2, 3]);
    expect(log.read(2).map(({ sequence }) => sequence)).toEqual([3]);
  });

  it('keeps the newest, and says how many it no longer has', () => {
    const log = new EgressLog();
    for (let index = 0; index < 3 * keptRecords; index++) log.add(denied);
    expect(log.read()).toHaveLength(keptRecords);
    expect(log.read().at(-1)?.sequence).toBe(3 * keptRecords);
    expect(log.summary()).toMatchObject({ denied: 3 * keptRecords, lost: 2 * keptRecords });
  });

  it('keeps connections, however many questions are asked', () => {
    const log = new EgressLog();
    log.add({ kind: 'connection', verdict: 'allow' });
    for (let index = 0; index < 3 * keptRecords; index++) log.add(denied);
    expect(log.read()[0]).toMatchObject({ kind: 'connection', sequence: 1 });
  });

  it('counts the bytes of connections once, though their requests tell of them too', () => {
    const log = new EgressLog();
    log.add({ kind: 'request', verdict: 'allow', upBytes: 5, downBytes: 7 });
    log.add({ kind: 'connection', verdict: 'allow', upBytes: 6, downBytes: 8 });
    expect(log.summary()).toMatchObject({ allowed: 2, upBytes: 6, downBytes: 8 });
  });

  it('counts many alike as many', () => {
    const log = new EgressLog();
    log.add({ kind: 'packet', verdict: 'deny', count: 40 });
    expect(log.summary().denied).toBe(40);
  });

  it('tells followers, until they stop', () => {
    const log = new EgressLog();
    const seen: number[] = [];
    const stop = log.follow(({ sequence }) => seen.push(sequence));
    log.add(denied);
    stop();
    log.add(denied);
    expect(seen).toEqual([1]);
  });
});

describe('text of a sandbox in an entry', () => {
  it.each([
    ['a\nb', 'a\\u000ab'],
    ['\u001b[2J', '\\u001b[2J'],
    ['\u202ertl', '\\u202ertl'],
    ['plain ünïcode', 'plain ünïcode'],
  ])('AX-07: %j is one harmless line', (text, expected) => expect(printable(text)).toBe(expected));

  it('is cut at its bound', () => expect(printable('x'.repeat(5_000))).toHaveLength(513));
});
