/** Signal names and numbers, both ways, of this platform. */
import { constants } from 'node:os';
import { SallyportError } from '../errors/error.ts';

const byNumber = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]));

/** @returns for instance `SIGKILL`; a real-time signal without a name as `SIG34` */
export function signalName(number: number): string {
  return byNumber.get(number) ?? `SIG${number}`;
}

/** @param name with or without `SIG` @throws SallyportError `invalid_request` */
export function signalNumber(name: string): number {
  const full = name.startsWith('SIG') ? name : `SIG${name}`;
  const number = (constants.signals as Record<string, number | undefined>)[full];
  if (number !== undefined) return number;
  throw new SallyportError('invalid_request', `Cannot send signal "${name}": no such signal name`);
}
