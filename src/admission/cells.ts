/** What the cells of more than one column are made of: amounts with units, texts, lists, objects with names of their own. */
import { z } from 'zod';
import { readBytes } from '../units/bytes.ts';
import { readDuration } from '../units/duration.ts';
import { cell, seen } from './problems.ts';
import { type Quantity, showRange } from './quantities.ts';

/** In human units where the quantity has one; a number afterwards. */
export function amount(quantity: Quantity) {
  const read = { bytes: readBytes, ms: readDuration, count: readCount }[quantity.unit];
  return cell(showRange(quantity), (value) => {
    const number = read(value);
    return number !== undefined && number >= quantity.min && number <= quantity.max ? number : undefined;
  });
}

function readCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : undefined;
}

export function text(allowed: string, accepts: (value: string) => boolean) {
  return cell(allowed, (value) => (typeof value === 'string' && accepts(value) ? value : undefined));
}

export function oneOf<const Words extends readonly string[]>(words: Words) {
  return cell(words.join(' or '), (value): Words[number] | undefined => words.find((word) => word === value));
}

export const yesOrNo = cell('true or false', (value) => (typeof value === 'boolean' ? value : undefined));

export function list<T extends z.ZodType>(item: T) {
  return z.array(item, { error: (issue) => `${seen(issue.input)}; allowed: a list` });
}

/** A list with at least one entry. */
export function entries<T extends z.ZodType>(item: T, most: number) {
  const allowed = `1 to ${most} entries`;
  return list(item)
    .min(1, { error: `saw []; allowed: ${allowed}` })
    .max(most, { error: (issue) => `saw ${countOf(issue.input)}; allowed: ${allowed}` });
}

export function countOf(list: unknown): string {
  return Array.isArray(list) ? `${list.length} entries` : 'no list';
}

/** An object with names of its own. zod's record steps over a key `__proto__` without a word, so it is refused first. */
export function named<T extends z.ZodType>(
  what: string,
  allowed: string,
  accepts: (name: string) => boolean,
  value: T,
) {
  const name = z.string().refine(accepts, { error: `name not allowed; allowed: ${allowed}` });
  const names = z.record(name, value, { error: (issue) => `${seen(issue.input)}; allowed: an object with ${what}` });
  return z
    .unknown()
    .refine((input) => typeof input !== 'object' || input === null || !Object.hasOwn(input, '__proto__'), {
      error: `name "__proto__" not allowed; allowed: ${allowed}`,
    })
    .pipe(names);
}
