/**
 * The addresses that this sandbox's resolver gives to names: one per name, of 198.18.0.0/15 (RFC 2544, routed nowhere). A
 * connection to one of them is a connection to the name, so nobody can name one host and go to another.
 */
import type { HostName } from '../network/host-name.ts';
import { type IpAddress, ofBytes } from '../network/ip-address.ts';

/** Names one sandbox may learn; see docs/limits.md. Past it a name gets no address. */
export const mostNames = 16_384;

const firstAddress = (198 << 24) | (18 << 16);
const addresses = 1 << 17;

export class SyntheticAddresses {
  readonly #byName = new Map<HostName, IpAddress>();
  readonly #byAddress = new Map<string, HostName>();

  /** The same name has the same address for the sandbox's life; undefined when there is none left. */
  addressOf(host: HostName): IpAddress | undefined {
    const known = this.#byName.get(host);
    if (known !== undefined) return known;
    if (this.#byName.size >= mostNames) return undefined;
    const number = (firstAddress + this.#byName.size + 1) >>> 0;
    const address = ofBytes([number >>> 24, (number >>> 16) & 255, (number >>> 8) & 255, number & 255]);
    this.#byName.set(host, address);
    this.#byAddress.set(address.text, host);
    return address;
  }

  hostOf(address: IpAddress): HostName | undefined {
    return this.#byAddress.get(address.text);
  }

  /** Whether it is of the range, given out or not. */
  static isSynthetic(address: IpAddress): boolean {
    if (address.family !== 4) return false;
    const number = address.bytes.reduce((sum, byte) => sum * 256 + byte, 0);
    const first = firstAddress >>> 0;
    return number >= first && number < first + addresses;
  }
}
