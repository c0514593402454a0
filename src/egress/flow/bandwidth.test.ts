import { describe, expect, it } from 'vitest';
import { TokenBucket } from './bandwidth.ts';

describe('a token bucket', () => {
  it('lets a second of bytes pass at once, then the rate', () => {
    const bucket = new TokenBucket(1_000, 0);
    expect(bucket.take(1_000, 0)).toBe(0);
    expect(bucket.take(500, 0)).toBe(500);
    expect(bucket.take(500, 1_000)).toBe(0);
  });

  it('never saves up more than a second', () => {
    const bucket = new TokenBucket(1_000, 0);
    expect(bucket.take(2_000, 3_600_000)).toBe(1_000);
  });

  it('over any time lets no more pass than the rate and the burst', () => {
    const bucket = new TokenBucket(1_000, 0);
    let now = 0;
    let passed = 0;
    while (now < 10_000) {
      now += bucket.take(64, now);
      passed += 64;
    }
    expect(passed).toBeLessThanOrEqual(11_000 + 64);
  });
});
