/** What may follow on a command line that is being typed: a pure function of the descriptions and the words. */
import type { CommandDescription, OptionDescription } from '../command.ts';

export interface Candidate {
  readonly word: string;
  readonly summary: string;
}

/** `sandboxes`: the word is the id of a sandbox; `files`: the shell's own completion knows better. */
export type Completion =
  | { readonly kind: 'words'; readonly candidates: readonly Candidate[] }
  | { readonly kind: 'sandboxes' }
  | { readonly kind: 'files' };

const files: Completion = { kind: 'files' };

/** @param words after "sallyport"; the last one is being typed and may be empty */
export function completionOf(commands: readonly CommandDescription[], words: readonly string[]): Completion {
  const line = withoutEquals(words);
  const typed = line.at(-1) ?? '';
  const visible = commands.filter(({ hidden }) => hidden !== true);
  const found = findCommand(visible, line.slice(0, -1));
  if (found === undefined) return wordsOf(nextNames(visible, line.slice(0, -1)), typed);
  return withinCommand(found.command, found.rest, typed);
}

/** bash cuts `--tier=x` into three words. */
function withoutEquals(words: readonly string[]): string[] {
  const last = words.length - 1;
  return words.flatMap((word, index) => (word === '=' && index > 0 ? (index === last ? [''] : []) : [word]));
}

function findCommand(commands: readonly CommandDescription[], words: readonly string[]) {
  for (const length of [2, 1]) {
    const name = words.slice(0, length).join(' ');
    const command = commands.find((each) => each.name === name && words.length >= length);
    if (command !== undefined) return { command, rest: words.slice(length) };
  }
  return undefined;
}

function nextNames(commands: readonly CommandDescription[], words: readonly string[]): Candidate[] {
  const names = new Map<string, string>();
  for (const { name, summary } of commands) {
    const parts = name.split(' ');
    const next = parts[words.length];
    if (next === undefined || !words.every((word, index) => parts[index] === word) || names.has(next)) continue;
    names.set(next, parts.length === words.length + 1 ? summary : '');
  }
  return [...names].map(([word, summary]) => ({ word, summary }));
}

function withinCommand(command: CommandDescription, rest: readonly string[], typed: string): Completion {
  const { operands, pending } = readLine(command, rest);
  if (pending !== undefined) return valuesOf(pending.choices, typed);
  // what follows belongs to the other program
  if (command.passThrough === true && operands >= (command.arguments?.length ?? 0)) return files;
  if (typed.startsWith('-')) return wordsOf(optionNames(command, rest), typed);
  const argument = command.arguments?.[Math.min(operands, command.arguments.length - 1)];
  if (argument === undefined) return wordsOf(optionNames(command, rest), typed);
  if (argument.summary.startsWith('sandbox')) return { kind: 'sandboxes' };
  return valuesOf(argument.choices, typed);
}

/** Counts the operands, and tells the option that still waits for its value. */
function readLine(command: CommandDescription, words: readonly string[]) {
  let operands = 0;
  let pending: OptionDescription | undefined;
  for (const word of words) {
    const option = pending === undefined ? findOption(command, word) : undefined;
    if (option === undefined && pending === undefined && word !== '--') operands++;
    pending = option?.flags.includes('<') === true ? option : undefined;
  }
  return { operands, pending };
}

function findOption({ options = [] }: CommandDescription, word: string): OptionDescription | undefined {
  return options.find((option) => namesOf(option).includes(word));
}

/** "-i, --interactive", "--home <folder>" → their names. */
function namesOf({ flags }: OptionDescription): string[] {
  return flags.split(/[ ,]+/).filter((part) => part.startsWith('-'));
}

function optionNames({ options = [] }: CommandDescription, given: readonly string[]): Candidate[] {
  const open = options.filter(
    (option) => option.repeat === true || !namesOf(option).some((name) => given.includes(name)),
  );
  return open.map((option) => ({ word: namesOf(option).at(-1) ?? '', summary: option.summary }));
}

function valuesOf(choices: readonly string[] | undefined, typed: string): Completion {
  if (choices === undefined) return files;
  return wordsOf(
    choices.map((word) => ({ word, summary: '' })),
    typed,
  );
}

function wordsOf(candidates: readonly Candidate[], typed: string): Completion {
  return { kind: 'words', candidates: candidates.filter(({ word }) => word.startsWith(typed)) };
}
