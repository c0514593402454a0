/**
 * `<home>/images/index.json`: which images are here. One writer (who holds the build lock), any number of readers, who
 * see the old text or the new one. `<home>/images/<hex>/manifest.json` has the whole package list of an image.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { SallyportError } from '../errors/error.ts';
import { writeDurably } from './durable.ts';
import { errnoOf } from './errno.ts';

const entrySchema = z.strictObject({
  /** `sha256:<hex>` of the rootfs tar. */
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  /** Hex digest of the recipe and of the command that it became. */
  recipeDigest: z.string(),
  architecture: z.string(),
  /** ISO 8601. */
  builtAt: z.string(),
  builder: z.string(),
  user: z.object({ uid: z.number().int(), gid: z.number().int(), home: z.string() }),
  packages: z.object({ count: z.number().int(), sha256: z.string() }),
  /** What differs from the committed lock, one sentence each; empty when nothing does. */
  lockDifferences: z.array(z.string()),
});
const indexSchema = z.strictObject({ version: z.literal(1), images: z.record(z.string(), entrySchema) });

export type ImageEntry = z.infer<typeof entrySchema>;
export type ImageIndex = ReadonlyMap<string, ImageEntry>;

export function imagesFolder(home: string): string {
  return join(home, 'images');
}

/** Where an image of this digest is. */
export function imageFolder(home: string, digest: string): string {
  return join(imagesFolder(home), digest.slice('sha256:'.length));
}

/** No index is an empty index. @throws SallyportError `image_missing` when it is damaged */
export function readImageIndex(home: string): ImageIndex {
  const file = indexFile(home);
  const text = readText(file);
  if (text === undefined) return new Map();
  const index = indexSchema.safeParse(jsonOf(text));
  if (index.success) return new Map(Object.entries(index.data.images));
  throw new SallyportError(
    'image_missing',
    `Cannot read the images: ${file} is damaged: ${z.prettifyError(index.error)}`,
  );
}

export function writeImageIndex(home: string, images: ImageIndex): void {
  const index = { version: 1, images: Object.fromEntries([...images].sort()) };
  writeDurably(indexFile(home), `${JSON.stringify(index, null, 2)}\n`);
}

function indexFile(home: string): string {
  return join(imagesFolder(home), 'index.json');
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return undefined;
    throw thrown;
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // the schema refuses it with a sentence
    return undefined;
  }
}
