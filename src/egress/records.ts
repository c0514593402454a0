/**
 * The flow log of one sandbox: an entry for each question, connection, request and refused packet, with its verdict. It is kept
 * in memory up to a bound; what fell out of it is counted (invariant 8).
 */
import type { DenialCode } from './types.ts';

export interface EgressRecord {
  /** From 1, without gaps within a sandbox. */
  readonly sequence: number;
  /** When it began; ISO 8601. */
  readonly at: string;
  readonly kind: 'dns' | 'connection' | 'request' | 'packet';
  readonly verdict: 'allow' | 'deny' | 'would-deny';
  /** Id of the rule that decided; null where no rule is near. */
  readonly rule: string | null;
  readonly code: DenialCode | null;
  /** One sentence; null when it was simply allowed. */
  readonly reason: string | null;
  /** The name that was asked for or connected to; as it was sent, made printable, when it is no host name. */
  readonly host: string | null;
  /** A raw address that was gone to, or the one that was dialled for the name. */
  readonly address: string | null;
  readonly port: number | null;
  /** `tls`, `http` or `raw` by the first bytes; `udp`, `icmp`, … of packets; the record type of questions. */
  readonly protocol: string | null;
  readonly upBytes: number;
  readonly downBytes: number;
  readonly durationMs: number;
  /** Of requests that we can see; the path without its query. */
  readonly method: string | null;
  readonly path: string | null;
  readonly status: number | null;
  /** What went wrong beyond the policy: no such name, nobody there, a bad certificate. */
  readonly fault: string | null;
  /** How many alike are told by this entry. */
  readonly count: number;
}

export type NewRecord = Pick<EgressRecord, 'kind' | 'verdict'> & Partial<Omit<EgressRecord, 'sequence'>>;

export interface EgressSummary {
  readonly allowed: number;
  readonly denied: number;
  readonly wouldDeny: number;
  readonly upBytes: number;
  readonly downBytes: number;
  /** Entries that are no longer kept, and packets that could not be told. */
  readonly lost: number;
}

/** Entries kept of one sandbox, of each of the two kinds; see docs/limits.md. */
export const keptRecords = 10_000;
const shownCharacters = 512;

/** Questions and packets cost their sender nothing: a flood of them must not push connections and requests out. */
class Kept {
  readonly #records: EgressRecord[] = [];
  #lost = 0;

  add(record: EgressRecord): void {
    this.#records.push(record);
    // cut in one go, so that a flood does not move ten thousand entries with each
    if (this.#records.length < 2 * keptRecords) return;
    this.#lost += this.#records.length - keptRecords;
    this.#records.splice(0, this.#records.length - keptRecords);
  }

  /** From the end: who follows asks for the last few. */
  read(after: number): readonly EgressRecord[] {
    const first = Math.max(0, this.#records.length - keptRecords);
    let from = this.#records.length;
    while (from > first && (this.#records[from - 1]?.sequence ?? 0) > after) from -= 1;
    return this.#records.slice(from);
  }

  lost(): number {
    return this.#lost + Math.max(0, this.#records.length - keptRecords);
  }
}

export class EgressLog {
  readonly #asked = new Kept();
  readonly #passed = new Kept();
  readonly #listeners = new Set<(record: EgressRecord) => void>();
  #sequence = 0;
  #summary = { allowed: 0, denied: 0, wouldDeny: 0, upBytes: 0, downBytes: 0, lost: 0 };

  add(entry: NewRecord): void {
    this.#sequence += 1;
    const record: EgressRecord = { ...blank, at: new Date().toISOString(), ...entry, sequence: this.#sequence };
    this.#count(record);
    const isAsked = record.kind === 'dns' || record.kind === 'packet';
    (isAsked ? this.#asked : this.#passed).add(record);
    for (const listener of this.#listeners) listener(record);
  }

  addLost(count: number): void {
    this.#summary.lost += count;
  }

  /** Those after `sequence` that are kept, oldest first. */
  read(after = 0): readonly EgressRecord[] {
    const both = [...this.#asked.read(after), ...this.#passed.read(after)];
    return both.sort((a, b) => a.sequence - b.sequence);
  }

  summary(): EgressSummary {
    return { ...this.#summary, lost: this.#summary.lost + this.#asked.lost() + this.#passed.lost() };
  }

  /** @returns the way to stop */
  follow(listener: (record: EgressRecord) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #count({ verdict, upBytes, downBytes, kind, count }: EgressRecord): void {
    this.#summary[verdictCounters[verdict]] += count;
    // a request's bytes are its connection's too
    if (kind !== 'connection') return;
    this.#summary.upBytes += upBytes;
    this.#summary.downBytes += downBytes;
  }
}

const verdictCounters = { allow: 'allowed', deny: 'denied', 'would-deny': 'wouldDeny' } as const;

const blank: Omit<EgressRecord, 'sequence' | 'at' | 'kind' | 'verdict'> = {
  rule: null,
  code: null,
  reason: null,
  host: null,
  address: null,
  port: null,
  protocol: null,
  upBytes: 0,
  downBytes: 0,
  durationMs: 0,
  method: null,
  path: null,
  status: null,
  fault: null,
  count: 1,
};

/** Text of the sandbox's for an entry: short, one line, every control and bidi character escaped (AX-07). */
export function printable(text: string): string {
  const cut = text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text;
  return cut.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = (character.codePointAt(0) ?? 0).toString(16);
    return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`;
  });
}
