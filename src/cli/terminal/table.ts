/** Tables for people: no frame, columns as wide as they need to be, nothing cut, so that a line can be copied whole. */
import Table from 'cli-table3';
import { safeName } from './safe-text.ts';

const none = '';
const chars = {
  top: none,
  'top-mid': none,
  'top-left': none,
  'top-right': none,
  bottom: none,
  'bottom-mid': none,
  'bottom-left': none,
  'bottom-right': none,
  left: none,
  'left-mid': none,
  mid: none,
  'mid-mid': none,
  right: none,
  'right-mid': none,
  middle: '  ',
};

/** @param head column titles; left out for a list of names and values */
export function renderTable(head: readonly string[] | undefined, rows: readonly (readonly string[])[]): string {
  const style = { head: [], border: [], compact: true, 'padding-left': 0, 'padding-right': 0 };
  const table = new Table({ chars, style, ...(head === undefined ? {} : { head: [...head] }) });
  table.push(...rows.map((row) => row.map(safeName)));
  const lines = table.toString().split('\n');
  return `${lines.map((line) => line.trimEnd()).join('\n')}\n`;
}
