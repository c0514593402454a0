import { describe, expect, it } from 'vitest';
import type { HostName } from '../network/host-name.ts';
import { parseIpAddress } from '../network/ip-address.ts';
import { mostNames, SyntheticAddresses } from './synthetic-addresses.ts';

const host = (text: string): HostName => text as HostName;

describe('synthetic addresses', () => {
  it('give each name one address, the same for its life', () => {
    const addresses = new SyntheticAddresses();
    const first = addresses.addressOf(host('a.example'));
    expect(first?.text).toBe('198.18.0.1');
    expect(addresses.addressOf(host('b.example'))?.text).toBe('198.18.0.2');
    expect(addresses.addressOf(host('a.example'))).toEqual(first);
  });

  it('are read back as the name, and as nothing where none was given out', () => {
    const addresses = new SyntheticAddresses();
    const given = addresses.addressOf(host('a.example'));
    if (given === undefined) throw new Error('no address');
    expect(addresses.hostOf(given)).toBe('a.example');
    const other = parseIpAddress('198.18.0.9');
    expect(other && addresses.hostOf(other)).toBeUndefined();
  });

  it.each([
    ['198.17.255.255', false],
    ['198.18.0.0', true],
    ['198.19.255.255', true],
    ['198.20.0.0', false],
    ['::1', false],
  ])('knows whether %s is of the range', (text, expected) => {
    const address = parseIpAddress(text);
    expect(address && SyntheticAddresses.isSynthetic(address)).toBe(expected);
  });

  it('run out instead of growing, and keep what they gave', () => {
    const addresses = new SyntheticAddresses();
    for (let index = 0; index < mostNames; index++) addresses.addressOf(host(`n${index}.example`));
    expect(addresses.addressOf(host('one-more.example'))).toBeUndefined();
    expect(addresses.addressOf(host('n0.example'))?.text).toBe('198.18.0.1');
  });
});
