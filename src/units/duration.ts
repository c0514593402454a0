/** Durations as people write them: "250ms", "30s", "5m", "1h", "2d"; one unit, exact or refused. Values are ms. */
import { SallyportError } from '../errors/error.ts';
import { readQuantity, showQuantity, type UnitTable } from './quantity.ts';

const units: UnitTable = [
  ['ms', 1],
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
];

/** What {@link readDuration} accepts, for messages. */
export const durationGrammar = 'a whole number with ms, s, m, h or d ("30s", "90m")';

/** Milliseconds of "30s"; undefined for anything else. A plain number is refused: nobody can tell its unit. */
export function readDuration(value: unknown): number | undefined {
  return typeof value === 'string' ? readQuantity(value, units) : undefined;
}

/** @throws SallyportError `invalid_request` */
export function parseDuration(value: string): number {
  const ms = readDuration(value);
  if (ms !== undefined) return ms;
  const message = `Cannot read duration ${JSON.stringify(value)}: allowed is ${durationGrammar}`;
  throw new SallyportError('invalid_request', message);
}

/** "30s", "90m", "1500ms": exact, so that {@link parseDuration} gives the same number back. */
export function formatDuration(ms: number): string {
  return showQuantity(ms, units);
}
