/** A list with a bound. Past it the reader is told instead of given a part: an oracle that forgot cannot vouch. */
export class Recording<Entry> {
  readonly #what: string;
  readonly #limit: number;
  #entries: Entry[] = [];
  #missed = 0;

  constructor(what: string, limit = 20_000) {
    this.#what = what;
    this.#limit = limit;
  }

  add(entry: Entry): void {
    if (this.#entries.length < this.#limit) this.#entries.push(entry);
    else this.#missed += 1;
  }

  /** @throws Error when there were more than it holds */
  all(): readonly Entry[] {
    if (this.#missed > 0) throw new Error(`O2: ${this.#missed} ${this.#what} came after the first ${this.#limit}`);
    return [...this.#entries];
  }

  forget(): void {
    this.#entries = [];
    this.#missed = 0;
  }
}
