/** What may follow. */
import { describe, expect, it } from 'vitest';
import { commands } from '../commands/all.ts';
import { completionOf } from './candidates.ts';

function words(...line: string[]): string[] | string {
  const completion = completionOf(commands, line);
  return completion.kind === 'words' ? completion.candidates.map(({ word }) => word) : completion.kind;
}

describe('completionOf', () => {
  it('gives commands and groups, but none that is hidden', () => {
    expect(words('')).toEqual(expect.arrayContaining(['run', 'key', 'matrix']));
    expect(words('comp')).toEqual(['completion']);
    expect(words('key', '')).toEqual(['create', 'list', 'revoke']);
    expect(words('nothing', '')).toEqual([]);
  });
  it('gives the options that are still open', () => {
    expect(words('ls', '--')).toEqual(['--all', '--runs', '--json', '--url', '--home']);
    expect(words('ls', '--all', '--a')).toEqual([]);
    expect(words('run', '--input', 'x', '--in')).toEqual(['--input']);
    expect(words('exec', '-i', '--in')).toEqual([]);
  });
  it('gives the choices of an option, also as bash cuts it', () => {
    expect(words('run', '--tier', '')).toEqual(['process', 'container']);
    expect(words('run', '--tier', '=', 'c')).toEqual(['container']);
    expect(words('run', '--tier', '=')).toEqual(['process', 'container']);
    expect(words('create', '--network', '')).toEqual(['deny']);
    expect(words('run', '--allow-host', 'a.example', '--allow-h')).toEqual(['--allow-host']);
  });
  it('leaves files to the shell', () => {
    expect(words('run', '--input', '')).toBe('files');
    expect(words('run', '--class', 'a', '')).toBe('files');
    expect(words('cp', '')).toBe('files');
  });
  it('knows where a sandbox stands, and where another program begins', () => {
    expect(words('exec', '')).toBe('sandboxes');
    expect(words('exec', '--user', 'root', 'sb')).toBe('sandboxes');
    expect(words('kill', 'sb-0', '')).toBe('sandboxes');
    expect(words('exec', 'sb-0', 'ls', '--')).toBe('files');
  });
  it('gives the choices of an argument', () => {
    expect(words('completion', '')).toEqual(['bash', 'zsh', 'fish']);
  });
});
