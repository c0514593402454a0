/** Where something is copied from or to: `<sandbox id>:<path>`, or a path of this machine. */
export type Place =
  | { readonly kind: 'local'; readonly path: Buffer }
  | { readonly kind: 'sandbox'; readonly id: string; readonly path: Buffer };

const sandboxId = /^[a-z0-9][a-z0-9_-]{0,63}$/;

/** A local name with a colon is written `./a:b`. */
export function parsePlace(argument: string | Buffer): Place {
  const bytes = Buffer.from(argument);
  const colon = bytes.indexOf(0x3a);
  const id = colon === -1 ? '' : bytes.subarray(0, colon).toString('latin1');
  if (!sandboxId.test(id)) return { kind: 'local', path: bytes };
  return { kind: 'sandbox', id, path: bytes.subarray(colon + 1) };
}
