/**
 * Where the packages of an image come from: the host's own apt sources, cut down to the official suites of one
 * release. No mirror is named in this project, and what else the host may install from is no part of an image.
 */

/** Both of apt's formats; a file named `*.sources` is deb822, any other has one source a line. */
export interface AptSourceFile {
  readonly name: string;
  readonly text: string;
}

/**
 * @param suite for example `bookworm`: its own, `-updates` and `-security` count, backports and other vendors' do not
 * @returns deb822 text with the component `main` only; empty when the host has no such source
 */
export function releaseSources(files: readonly AptSourceFile[], suite: string): string {
  const sources = files.flatMap((file) => (file.name.endsWith('.sources') ? stanzasOf(file.text) : linesOf(file.text)));
  return sources.flatMap((source) => narrowed(source, suite)).join('\n');
}

interface Source {
  readonly types: readonly string[];
  readonly uris: readonly string[];
  readonly suites: readonly string[];
  readonly components: readonly string[];
  readonly signedBy?: string;
}

function narrowed(source: Source, suite: string): string[] {
  const wanted = [suite, `${suite}-updates`, `${suite}-security`];
  const suites = source.suites.filter((name) => wanted.includes(name));
  const uris = source.uris.filter((uri) => !uri.startsWith('cdrom:'));
  const isOurs = source.types.includes('deb') && source.components.includes('main');
  if (!isOurs || suites.length === 0 || uris.length === 0) return [];
  const signedBy = source.signedBy === undefined ? '' : `Signed-By: ${source.signedBy}\n`;
  return [`Types: deb\nURIs: ${uris.join(' ')}\nSuites: ${suites.join(' ')}\nComponents: main\n${signedBy}`];
}

function stanzasOf(text: string): Source[] {
  const lines = text.split('\n').filter((line) => !line.startsWith('#'));
  const stanzas = lines.join('\n').split(/\n[ \t]*\n/);
  return stanzas.map(fieldsOf).flatMap((fields) => {
    if (/^(no|false|0|off)$/i.test(fields.get('enabled') ?? '')) return [];
    const words = (name: string): string[] => wordsOf(fields.get(name) ?? '');
    const signedBy = fields.get('signed-by');
    return {
      types: words('types'),
      uris: words('uris'),
      suites: words('suites'),
      components: words('components'),
      ...(signedBy === undefined ? {} : { signedBy }),
    };
  });
}

/** Field names in lower case. A line that starts with a blank goes on with the field before it (an inline key). */
function fieldsOf(stanza: string): Map<string, string> {
  const fields = new Map<string, string>();
  let last = '';
  for (const line of stanza.split('\n')) {
    const colon = line.indexOf(':');
    if (/^[ \t]/.test(line)) fields.set(last, `${fields.get(last) ?? ''}\n${line}`);
    else if (colon > 0) {
      last = line.slice(0, colon).toLowerCase();
      fields.set(last, line.slice(colon + 1).trim());
    }
  }
  return fields;
}

/** `deb [signed-by=/key arch=amd64] uri suite component…` */
function linesOf(text: string): Source[] {
  return text.split('\n').flatMap((line) => {
    const match = /^\s*(deb)\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)\s+([^#]+)/.exec(line);
    if (match === null) return [];
    const [, type = '', options = '', uri = '', suite = '', components = ''] = match;
    const signedBy = wordsOf(options)
      .find((option) => option.startsWith('signed-by='))
      ?.slice('signed-by='.length);
    const source = { types: [type], uris: [uri], suites: [suite], components: wordsOf(components) };
    return signedBy === undefined ? [source] : [{ ...source, signedBy }];
  });
}

function wordsOf(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== '');
}
