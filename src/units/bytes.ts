/** Sizes as people write them: powers of 1024 (KiB, MiB, GiB, TiB) and of 1000 (KB, MB, GB, TB). Exact or refused. */
import { SallyportError } from '../errors/error.ts';
import { readQuantity, showQuantity, type UnitTable } from './quantity.ts';

const units: UnitTable = [
  ['B', 1],
  ['KB', 1000],
  ['KiB', 1024],
  ['MB', 1000 ** 2],
  ['MiB', 1024 ** 2],
  ['GB', 1000 ** 3],
  ['GiB', 1024 ** 3],
  ['TB', 1000 ** 4],
  ['TiB', 1024 ** 4],
];
const bare: UnitTable = [['', 1], ...units];

/** What {@link readBytes} accepts, for messages. */
export const bytesGrammar = 'a whole number of bytes, alone or with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB ("512MiB")';

/** Bytes of "512MiB", "10GB", "4096" or 4096; undefined for anything else. */
export function readBytes(value: unknown): number | undefined {
  if (typeof value === 'string') return readQuantity(value, bare);
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** @throws SallyportError `invalid_request` */
export function parseBytes(value: string | number): number {
  const bytes = readBytes(value);
  if (bytes !== undefined) return bytes;
  throw new SallyportError('invalid_request', `Cannot read size ${JSON.stringify(value)}: allowed is ${bytesGrammar}`);
}

/** "512MiB", "10GB", "1234567B": exact, so that {@link parseBytes} gives the same number back. */
export function formatBytes(bytes: number): string {
  return showQuantity(bytes, units);
}
