/**
 * YAML text to a plain value, with what makes YAML surprising taken out: one document, YAML 1.2 core types, no aliases
 * or anchors, no tags, no directives, no duplicate keys, and a bound on size before anything recursive looks at it.
 */
import { Lexer, parseAllDocuments, visit } from 'yaml';

export const policyBytes = 1_048_576;
/**
 * The parser descends recursively and compares every key with every other: half a mebibyte of "[" exhausts the stack and
 * aborts the process. Ten thousand words are some forty classes, and were parsed in 0.2 s however deep.
 */
const mostWords = 10_000;

export type YamlResult =
  | { readonly ok: true; readonly value: unknown }
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
  return countWords(text) > mostWords ? `more than ${mostWords} YAML words; allowed: at most ${mostWords}` : undefined;
}

function countWords(text: string): number {
  let words = 0;
  for (const _word of new Lexer().lex(text)) {
    words += 1;
    if (words > mostWords) return words;
  }
  return words;
}

function readDocument(text: string): YamlResult {
  const documents = parseAllDocuments(text, { version: '1.2', schema: 'core', stringKeys: true, logLevel: 'error' });
  const [document] = documents;
  if (document === undefined)
    return { ok: false, problems: ['no document; allowed: a policy with version and classes'] };
  if (documents.length > 1) return { ok: false, problems: [`${documents.length} documents; allowed: one`] };
  const problems = [...document.errors, ...document.warnings].map((issue) => firstLine(issue.message));
  if (document.directives?.yaml.explicit === true) problems.push('a %YAML directive; allowed: none, YAML 1.2 is meant');
  problems.push(...surprises(document));
  if (problems.length > 0) return { ok: false, problems };
  const value: unknown = document.toJS({ maxAliasCount: 0 });
  return { ok: true, value };
}

/** "Map keys must be unique at line 2, column 1", without the excerpt below it. */
function firstLine(message: string): string {
  return (message.split('\n')[0] ?? message).replace(/:$/, '');
}

function surprises(document: Parameters<typeof visit>[0]): string[] {
  const found: string[] = [];
  visit(document, {
    Alias: (_key, node) => void found.push(`alias *${node.source}; allowed: no aliases, write the value out`),
    Value: (_key, node) => {
      if (node.anchor !== undefined) found.push(`anchor &${node.anchor}; allowed: no anchors, write the value out`);
      if (node.tag !== undefined && !plainTags.has(node.tag)) found.push(`tag ${node.tag}; allowed: no tags`);
    },
  });
  return found;
}

/** What the composer itself writes on nodes, or what an explicit tag of the same meaning says. */
const plainTags: ReadonlySet<string> = new Set(
  ['map', 'seq', 'str', 'int', 'float', 'bool', 'null'].map((name) => `tag:yaml.org,2002:${name}`),
);
