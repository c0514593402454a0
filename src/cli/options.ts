/** The options of one call, read by kind. A description and its action that disagree about a kind are a bug. */
export class Options {
  readonly #values: Readonly<Record<string, unknown>>;

  constructor(values: Readonly<Record<string, unknown>>) {
    this.#values = values;
  }

  flag(name: string): boolean {
    return this.#values[name] === true;
  }

  text(name: string): string | undefined {
    const value = this.#values[name];
    if (value === undefined || typeof value === 'string') return value;
    throw new TypeError(`The option ${name} is not text`);
  }

  list(name: string): readonly string[] {
    const value = this.#values[name] ?? [];
    if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value;
    throw new TypeError(`The option ${name} is not a list`);
  }
}
