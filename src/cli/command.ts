/** What a command is: words for people and the completion, and where its action is loaded from when it is called. */
import type { Context } from './context.ts';
import type { Options } from './options.ts';

export interface CommandDescription {
  /** "ls", or "key create" for a command of a group. */
  readonly name: string;
  readonly summary: string;
  /** In commander's syntax: `<id>`, `[path]`, `<command...>`. */
  readonly arguments?: readonly ArgumentDescription[];
  readonly options?: readonly OptionDescription[];
  /** Everything after the first argument that is no option of ours belongs to another program. */
  readonly passThrough?: boolean;
  /** Called by programs, not by people: no help shows it. */
  readonly hidden?: boolean;
  readonly examples?: readonly string[];
  /** Loaded only when the command runs: `ls` must not wait for what `run` needs. */
  readonly load: () => Promise<{ readonly run: Action }>;
}

interface ArgumentDescription {
  readonly name: string;
  readonly summary: string;
  readonly choices?: readonly string[];
}

export interface OptionDescription {
  /** In commander's syntax: `--json`, `--home <folder>`, `-i, --interactive`. */
  readonly flags: string;
  readonly summary: string;
  /** May be given more than once. */
  readonly repeat?: boolean;
  readonly choices?: readonly string[];
}

export interface Call {
  readonly arguments: readonly string[];
  readonly options: Options;
  /** All of them, for the completion. */
  readonly commands: readonly CommandDescription[];
}

/** @returns the exit status; undefined is 0 */
export type Action = (context: Context, call: Call) => Promise<number | undefined>;
