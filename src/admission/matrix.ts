/**
 * The permission matrix to look at: classes as columns, the policy file's keys as rows, so that a cell, a key of the
 * file and the rule of a refusal have one name. Everything is shown whole: long cells wrap, nothing is cut.
 */
import Table from 'cli-table3';
import type { Grant } from './grant.ts';
import { networkLines } from './matrix-network.ts';
import type { JobClass, Policy } from './policy.ts';
import {
  artifactQuantities,
  fileQuantities,
  lifetimeQuantities,
  limitQuantities,
  type Quantity,
  showAmount,
} from './quantities.ts';

export interface MatrixTable {
  /** An empty corner, then the names of the classes. */
  readonly headers: readonly string[];
  /** The key, then one cell a class; a cell's lines are separated by "\n". */
  readonly rows: readonly (readonly string[])[];
}

/** The matrix in base units (bytes, milliseconds), for `--json` and the API; so it names no path of the host (HX-23). */
export interface MatrixJson {
  readonly version: 1;
  readonly sha256: string;
  readonly classes: Readonly<Record<string, Omit<JobClass, 'name'>>>;
}

interface MatrixRow {
  readonly key: string;
  readonly show: (job: JobClass) => string;
}

const matrixRows: readonly MatrixRow[] = [
  { key: 'isolation.tier', show: (job) => job.isolation.tier },
  { key: 'isolation.atLeast', show: (job) => job.isolation.atLeast },
  { key: 'isolation.root', show: (job) => (job.isolation.root ? 'yes' : 'no') },
  { key: 'image.default', show: (job) => job.image.default },
  { key: 'image.allow', show: (job) => listed(job.image.allow) },
  { key: 'files.workdir', show: (job) => job.files.workdir },
  ...amountRows('files', fileQuantities, (job) => job.files),
  { key: 'network', show: (job) => networkLines(job.network).join('\n') },
  { key: 'packages', show: (job) => job.packages.mode },
  { key: 'secrets', show: (job) => job.secrets.mode },
  ...amountRows('limits', limitQuantities, (job) => job.limits),
  { key: 'env.set', show: (job) => variables(job.env.set) },
  { key: 'env.allow', show: (job) => listed(job.env.allow) },
  ...amountRows('artifacts', artifactQuantities, (job) => job.artifacts),
  { key: 'tools', show: (job) => listed(job.tools) },
  ...amountRows('lifetime', lifetimeQuantities, (job) => job.lifetime),
];

export function matrixTable(policy: Policy): MatrixTable {
  return {
    headers: ['', ...policy.classes.map((job) => job.name)],
    rows: matrixRows.map((row) => [row.key, ...policy.classes.map(row.show)]),
  };
}

export function matrixJson(policy: Policy): MatrixJson {
  const classes = Object.fromEntries(policy.classes.map(({ name, ...job }) => [name, job]));
  return { version: policy.version, sha256: policy.sha256, classes };
}

/** Narrower than this, a column of values is no longer read at a glance. */
const narrowestColumn = 16;

/**
 * The table as text, ending in a newline; in several tables one below the other where the classes do not fit.
 * @param options.width columns of the terminal
 */
export function renderMatrix(policy: Policy, options: { readonly width: number }): string {
  const { headers, rows } = matrixTable(policy);
  const keyWidth = Math.max(...rows.map(([key = '']) => key.length)) + 2;
  const room = options.width - keyWidth - 2;
  const atOnce = Math.max(1, Math.min(policy.classes.length, Math.floor(room / (narrowestColumn + 1))));
  const cellWidth = Math.max(narrowestColumn, Math.floor(room / atOnce) - 1);
  const tables: string[] = [];
  for (let first = 1; first < headers.length; first += atOnce) {
    const pick = (cells: readonly string[]) => [cells[0] ?? '', ...cells.slice(first, first + atOnce)];
    tables.push(renderTable(pick(headers), rows.map(pick), keyWidth, cellWidth));
  }
  return `${tables.join('\n\n')}\n\npolicy ${policy.source}\nsha256 ${policy.sha256}\n`;
}

function renderTable(headers: string[], rows: string[][], keyWidth: number, cellWidth: number): string {
  const table = new Table({
    head: headers,
    colWidths: headers.map((_header, index) => (index === 0 ? keyWidth : cellWidth)),
    style: { head: [], border: [], compact: true },
  });
  for (const [index, row] of rows.entries()) {
    const column = groupOf(row);
    if (index > 0 && column !== groupOf(rows[index - 1])) table.push(headers.map(() => ''));
    table.push(...linesOf(row, cellWidth - 2));
  }
  return table.toString();
}

/** "limits" of "limits.memory": an empty line stands between the columns of the policy. */
function groupOf(row: readonly string[] | undefined): string {
  const [group = ''] = (row?.[0] ?? '').split('.');
  return ['network', 'packages', 'secrets'].includes(group) ? 'closed' : group;
}

function amountRows<Keys extends string>(
  column: string,
  quantities: Readonly<Record<Keys, Quantity>>,
  amounts: (job: JobClass) => Readonly<Record<NoInfer<Keys>, number>>,
): MatrixRow[] {
  return (Object.keys(quantities) as Keys[]).map((name) => ({
    key: `${column}.${quantities[name].key}`,
    show: (job) => showAmount(amounts(job)[name], quantities[name]),
  }));
}

function listed(names: readonly string[]): string {
  return names.length === 0 ? 'none' : names.join(', ');
}

function variables(env: Grant['env']): string {
  const lines = Object.entries(env).map(([name, value]) => `${name}=${printable(value)}`);
  return lines.length === 0 ? 'none' : lines.join('\n');
}

/** A terminal obeys control characters, and the table counts one column a character. */
function printable(text: string): string {
  return text.replace(/[^ -~]/gu, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}

/** One row of the table a line of text: cli-table3 needs half a minute for a cell of 150 lines. */
function linesOf([key = '', ...cells]: readonly string[], width: number): string[][] {
  const wrapped = cells.map((cell) => cell.split('\n').flatMap((line) => wrapLine(line, width)));
  const height = Math.max(1, ...wrapped.map((lines) => lines.length));
  return Array.from({ length: height }, (_, line) => [
    line === 0 ? key : '',
    ...wrapped.map((lines) => lines[line] ?? ''),
  ]);
}

/** At a space, else after a ":" or ",", else within the word; never a character less. */
function wrapLine(line: string, width: number): string[] {
  const lines: string[] = [];
  let rest = line;
  while (rest.length > width) {
    const space = rest.lastIndexOf(' ', width);
    const mark = Math.max(rest.lastIndexOf(':', width - 1), rest.lastIndexOf(',', width - 1)) + 1;
    const cut = space > 0 ? space : mark || width;
    lines.push(rest.slice(0, cut));
    rest = rest.slice(space > 0 ? cut + 1 : cut);
  }
  return [...lines, rest];
}
