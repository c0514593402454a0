/** Lists put in order: by a key, in the order of its first appearance, and as sets. */

export function grouped<Item>(items: readonly Item[], key: (item: Item) => string): Item[][] {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const name = key(item);
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [item]);
    else group.push(item);
  }
  return [...groups.values()];
}

/** Each once, sorted. */
export function distinct(texts: readonly string[]): string[] {
  return [...new Set(texts)].sort();
}

/** Lists of at most `size`. */
export function chunksOf<Item>(items: readonly Item[], size: number): Item[][] {
  const count = Math.ceil(items.length / size);
  return Array.from({ length: count }, (_, index) => items.slice(index * size, (index + 1) * size));
}
