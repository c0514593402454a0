/**
 * Query strings, decoded once and strictly (FS-27): what is not valid percent-encoded UTF-8 becomes null and a key
 * given twice becomes a list, and no schema of ours accepts either. So every route gives the same answer to them.
 */
export type Query = Record<string, string | null | readonly (string | null)[]>;

export function parseQueryString(text: string): Query {
  const query: Query = Object.create(null);
  if (text === '') return query;
  for (const pair of text.split('&')) {
    const [name, value] = cut(pair);
    const key = decode(name) ?? name;
    const earlier = query[key];
    query[key] = earlier === undefined ? decode(value) : [];
  }
  return query;
}

function cut(pair: string): readonly [string, string] {
  const at = pair.indexOf('=');
  return at === -1 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)];
}

function decode(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return null;
  }
}
