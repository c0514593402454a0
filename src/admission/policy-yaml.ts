/**
 * YAML text to a plain value, with what makes YAML surprising taken out: one document, YAML 1.2 core types, no aliases
 * or anchors, no tags, no directives, no duplicate keys, and bounds on size and depth before anything recursive looks at it.
 */
import { type Document, isMap, isNode, isScalar, LineCounter, parseAllDocuments, visit, type YAMLError } from 'yaml';
import { boundsProblem } from './policy-bounds.ts';
import { mostProblems } from './problems.ts';

export const policyBytes = 1_048_576;

/** The line, from 1, in which the value at this place begins. */
export type LineOf = (path: readonly (string | number)[]) => number | undefined;

export type YamlResult =
  | { readonly ok: true; readonly value: unknown; readonly lineOf: LineOf }
  | { readonly ok: false; readonly problems: readonly string[] };

export function readYaml(text: string): YamlResult {
  const refusal = refusalOfText(text);
  if (refusal !== undefined) return { ok: false, problems: [refusal] };
  try {
    return readDocument(text);
  } catch (error) {
    return { ok: false, problems: [error instanceof Error ? error.message : String(error)] };
  }
}

function refusalOfText(text: string): string | undefined {
  if (text.trim() === '') return 'the file is empty; allowed: a policy with version and classes';
  if (Buffer.byteLength(text) > policyBytes) return 'larger than 1MiB; allowed: at most 1MiB';
  if (text.includes('\0')) return 'a NUL byte: not a text file';
  return boundsProblem(text);
}

function readDocument(text: string): YamlResult {
  const lines = new LineCounter();
  const documents = parseAllDocuments(text, {
    ...{ version: '1.2', schema: 'core', stringKeys: true, logLevel: 'error', lineCounter: lines },
    // slow where there is much of it: an excerpt of the line for each error, a comparison of every key with every other
    ...{ prettyErrors: false, uniqueKeys: false },
  });
  const [document] = documents;
  if (document === undefined)
    return { ok: false, problems: ['no document; allowed: a policy with version and classes'] };
  if (documents.length > 1) return { ok: false, problems: [`${documents.length} documents; allowed: one`] };
  const problems = [
    ...[...document.errors, ...document.warnings].map((issue) => placed(issue, lines)),
    ...(document.directives?.yaml.explicit === true ? ['a %YAML directive; allowed: none, YAML 1.2 is meant'] : []),
    ...surprises(document, lines),
  ];
  if (problems.length > 0) return { ok: false, problems: shortened(problems) };
  const value: unknown = document.toJS({ maxAliasCount: 0 });
  return { ok: true, value, lineOf: (path) => lineOf(document, lines, path) };
}

function lineOf(document: Document, lines: LineCounter, path: readonly (string | number)[]): number | undefined {
  const node = document.getIn(path, true);
  const [start] = (isNode(node) ? node.range : undefined) ?? [];
  return start === undefined ? undefined : lines.linePos(start).line;
}

function placed({ message, pos: [start] }: YAMLError, lines: LineCounter): string {
  return start === -1 ? message : `${message} ${placeOf(start, lines)}`;
}

function placeOf(offset: number, lines: LineCounter): string {
  const { line, col } = lines.linePos(offset);
  return `at line ${line}, column ${col}`;
}

function shortened(problems: readonly string[]): string[] {
  const more = problems.length - mostProblems;
  return [...problems.slice(0, mostProblems), ...(more > 0 ? [`and ${more} more`] : [])];
}

function surprises(document: Parameters<typeof visit>[0], lines: LineCounter): string[] {
  const found: string[] = [];
  visit(document, {
    Alias: (_key, node) => void found.push(`alias *${node.source}; allowed: no aliases, write the value out`),
    Value: (_key, node) => {
      if (node.anchor !== undefined) found.push(`anchor &${node.anchor}; allowed: no anchors, write the value out`);
      if (node.tag !== undefined && !plainTags.has(node.tag)) found.push(`tag ${node.tag}; allowed: no tags`);
      if (isMap(node)) for (const problem of duplicateKeys(node, lines)) found.push(problem);
    },
  });
  return found;
}

function duplicateKeys({ items }: { readonly items: readonly { readonly key: unknown }[] }, lines: LineCounter) {
  const known = new Set<unknown>();
  return items.flatMap(({ key }) => {
    if (!isScalar(key)) return [];
    const isNew = known.size < known.add(key.value).size;
    if (isNew) return [];
    return [`Map keys must be unique ${placeOf(key.range?.[0] ?? 0, lines)}`];
  });
}

/** What the composer itself writes on nodes, or what an explicit tag of the same meaning says. */
const plainTags: ReadonlySet<string> = new Set(
  ['map', 'seq', 'str', 'int', 'float', 'bool', 'null'].map((name) => `tag:yaml.org,2002:${name}`),
);
