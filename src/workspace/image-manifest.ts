/** `<home>/images/<hex>/manifest.json`: what one image is made of, package by package. Written once, before the image is visible. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { writeDurably } from './durable.ts';
import { type ImageEntry, imageFolder } from './image-index.ts';
import type { PackageList } from './package-list.ts';

const manifestSchema = z.object({ version: z.literal(1), packages: z.record(z.string(), z.string()) });

export function writeManifest(folder: string, image: { name: string; entry: ImageEntry; packages: PackageList }): void {
  const { digest, recipeDigest, architecture, builtAt, builder } = image.entry;
  const packages = Object.fromEntries(image.packages);
  const manifest = { version: 1, name: image.name, digest, recipeDigest, architecture, builtAt, builder, packages };
  writeDurably(join(folder, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`);
}

/** @returns undefined when it is missing or damaged: the image counts as not there */
export function readManifest(home: string, digest: string): { readonly packages: PackageList } | undefined {
  const file = join(imageFolder(home, digest), 'manifest.json');
  if (!existsSync(file)) return undefined;
  const manifest = manifestSchema.safeParse(jsonOf(readFileSync(file, 'utf8')));
  return manifest.success ? { packages: new Map(Object.entries(manifest.data.packages)) } : undefined;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
