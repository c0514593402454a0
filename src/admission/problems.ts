/**
 * What is wrong with an outside text, as lines for people: the place, what was seen, what is allowed. One way of
 * saying it for the policy file and for requests, and all problems at once.
 */
import { z } from 'zod';

export interface Problem {
  /** "classes.analysis.limits.memory"; empty for the whole. */
  readonly path: string;
  readonly message: string;
}

/** A value as it was seen, short enough for a message and safe to print. */
export function seen(value: unknown): string {
  if (value === undefined) return 'missing';
  return `saw ${short(asText(value))}`;
}

function asText(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  try {
    return JSON.stringify(value) ?? typeof value;
  } catch {
    // A loop, or a toJSON of the value's own that throws: only callers in this process can pass one.
    return 'a value that is not JSON';
  }
}

/** At most ten of the names, and how many more there are. */
export function enumerate(names: readonly string[]): string {
  const more = names.length > 10 ? ` and ${names.length - 10} more` : '';
  return `${names.slice(0, 10).join(', ')}${more}`;
}

function short(text: string): string {
  return text.length <= 80 ? text : `${text.slice(0, 77)}…`;
}

/** One cell: a reader that returns undefined for what it does not accept. */
export function cell<T>(allowed: string, read: (value: unknown) => T | undefined) {
  return judgedCell((value): Reading<T> => {
    const result = read(value);
    return result === undefined ? { allowed } : { value: result };
  });
}

export type Reading<T> = { readonly value: T } | { readonly allowed: string };

/** One cell whose reader says what is allowed in place of what it saw. */
export function judgedCell<T>(read: (value: unknown) => Reading<T>) {
  return z.unknown().transform((value, context): T => {
    const reading = read(value);
    if ('value' in reading) return reading.value;
    context.addIssue({ code: 'custom', message: `${seen(value)}; allowed: ${reading.allowed}` });
    return z.NEVER;
  });
}

/** An object whose keys are exactly these. */
export function row<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject(shape, { error: objectMessage });
}

/** The unknown keys, or what stands in the place of the object; the keys are asked of the schema, which may be extended. */
function objectMessage(issue: z.core.$ZodRawIssue): string {
  const keys = issue.inst instanceof z.ZodObject ? Object.keys(issue.inst.shape).join(', ') : 'other keys';
  if (issue.code !== 'unrecognized_keys') return `${seen(issue.input)}; allowed: an object with ${keys}`;
  return `unknown key ${enumerate(issue.keys.map((key) => short(JSON.stringify(key))))}; allowed: ${keys}`;
}

/** A message that names more than so many is no longer read, and a hostile request must not make it grow. */
export const mostProblems = 50;

/** Each problem once, in the order of the text; beyond {@link mostProblems}, how many more. */
export function problemsOf(error: z.ZodError): Problem[] {
  const problems = error.issues
    .slice(0, mostProblems)
    .map((issue) => ({ path: showPath(issue.path), message: messageOf(issue) }));
  const once = [...new Map(problems.map((problem) => [showProblem(problem), problem])).values()];
  const more = error.issues.length - mostProblems;
  return more > 0 ? [...once, { path: '', message: `and ${more} more` }] : once;
}

export function showProblem(problem: Problem): string {
  return problem.path === '' ? problem.message : `${problem.path}: ${problem.message}`;
}

function messageOf(issue: z.core.$ZodIssue): string {
  if (issue.code !== 'invalid_key') return issue.message;
  return issue.issues[0]?.message ?? issue.message;
}

export function showPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`;
    const name = /^[A-Za-z0-9_-]{1,80}$/.test(String(key)) ? String(key) : short(JSON.stringify(String(key)));
    return text === '' ? name : `${text}.${name}`;
  }, '');
}
