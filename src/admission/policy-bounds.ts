/**
 * How much YAML the parser may be given. It descends recursively: half a mebibyte of "[" exhausts the stack and aborts the
 * process. So the words are counted first, one after the other, and the depth they could have.
 */
import { CST, Lexer } from 'yaml';

/** Some two thousand rules of networks; so many words, whatever they are, were parsed in 0.6 s. */
const mostWords = 250_000;
/** Levels, and columns of indentation: five thousand of them still parse. */
const mostDepth = 256;

/** @returns undefined for a text that may be parsed */
export function boundsProblem(text: string): string | undefined {
  const depth = new Depth();
  let words = 0;
  for (const word of new Lexer().lex(text)) {
    words += 1;
    if (words > mostWords) return `more than ${mostWords} YAML words; allowed: at most ${mostWords}`;
    depth.take(word);
    if (depth.most > mostDepth) return `nested or indented deeper than ${mostDepth}; allowed: at most ${mostDepth}`;
  }
  return undefined;
}

/**
 * Never less than the parser's: each level of a block is further to the right, by indentation or by one of "- ? :" in its
 * line, and each level of a flow has its bracket.
 */
class Depth {
  most = 0;
  #brackets = 0;
  /** Of the line; within brackets, of the entry. */
  #indicators = 0;
  #indentation = 0;
  #isLineStart = true;

  take(word: string): void {
    const type = CST.tokenType(word);
    if (type === 'newline') this.#indentation = 0;
    if (type === 'newline' || (type === 'comma' && this.#brackets > 0)) this.#indicators = 0;
    else if (type === 'space' && this.#isLineStart) this.#indentation = word.length;
    else if (type !== null && indicators.has(type)) this.#indicators += 1;
    else if (type === 'flow-seq-start' || type === 'flow-map-start') this.#brackets += 1;
    else if (type === 'flow-seq-end' || type === 'flow-map-end') this.#brackets = Math.max(0, this.#brackets - 1);
    this.#isLineStart = type === 'newline';
    this.most = Math.max(this.most, this.#indentation + this.#indicators + this.#brackets);
  }
}

const indicators: ReadonlySet<string> = new Set(['seq-item-ind', 'explicit-key-ind', 'map-value-ind']);
