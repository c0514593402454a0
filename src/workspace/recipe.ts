/**
 * The recipe of an image: `images/<name>/recipe.yaml`, the script `customize` beside it, and the lock files that say what
 * the last committed build gave. Unknown keys are errors.
 */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';
import { SallyportError } from '../errors/error.ts';

const packageName = z.string().regex(/^[a-z0-9][a-z0-9+.-]+$/, 'not the name of a Debian package');
const recipeSchema = z.strictObject({
  version: z.literal(1),
  suite: z.string().regex(/^[a-z]+$/, 'not the name of a Debian suite'),
  variant: z.enum(['minbase']),
  packages: z.array(packageName).min(1),
  sourceDateEpoch: z.number().int().positive(),
  user: z.strictObject({
    name: z.string().regex(/^[a-z][a-z0-9_-]{0,31}$/),
    uid: z.number().int().min(1000).max(59_999),
    gid: z.number().int().min(1000).max(59_999),
    home: z.string().regex(/^(\/[a-z0-9_-]+)+$/),
  }),
});

export interface Recipe extends z.infer<typeof recipeSchema> {
  readonly name: string;
  /** Absolute path of the last step of the build, a program. */
  readonly customize: string;
}

/** Folder of all recipes, in a checkout and in an installed package alike. */
const recipesFolder = new URL('../../images/', import.meta.url);

/** @throws SallyportError `image_missing` when there is none, or it is not one */
export function readRecipe(name: string): Recipe {
  const file = recipeFile(name, 'recipe.yaml');
  if (!/^[a-z][a-z0-9-]{0,31}$/.test(name) || !existsSync(file)) {
    throw new SallyportError('image_missing', `Cannot build image ${name}: there is no recipe of this name`);
  }
  const recipe = recipeSchema.safeParse(parse(readFileSync(file, 'utf8')));
  if (recipe.success) return { ...recipe.data, name, customize: recipeFile(name, 'customize') };
  throw new SallyportError('image_missing', `Cannot build image ${name}: ${file}: ${z.prettifyError(recipe.error)}`);
}

/** A file of the recipe `name`. */
export function recipeFile(name: string, file: string): string {
  return fileURLToPath(new URL(`${name}/${file}`, recipesFolder));
}
