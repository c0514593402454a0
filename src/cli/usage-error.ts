/** The command line itself is wrong: exit status 2, and nothing was done. */
import { SallyportError } from '../errors/error.ts';

export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** A value of the command line. @throws UsageError when `parse` refuses it */
export function parseArgument<Value>(name: string, text: string, parse: (text: string) => Value): Value {
  try {
    return parse(text);
  } catch (thrown) {
    if (thrown instanceof SallyportError) throw new UsageError(`${name}: ${thrown.message}`, { cause: thrown });
    throw thrown;
  }
}

/** "KEY=value". @throws UsageError */
export function parsePairs(name: string, pairs: readonly string[]): Record<string, string> {
  const entries = pairs.map((pair): [string, string] => {
    const at = pair.indexOf('=');
    if (at > 0) return [pair.slice(0, at), pair.slice(at + 1)];
    throw new UsageError(`${name}: ${JSON.stringify(pair)} is not KEY=value`);
  });
  return Object.fromEntries(entries);
}
