/**
 * One number and one unit, written without a gap: "512MiB", "5m". The grammar is strict because these texts become
 * ceilings: npm's `bytes` reads "1,5GB" as 1 byte and its `ms` reads "30" as 30 ms, and nobody is told. Here a text is
 * exact or refused.
 */

/** Units by name, in base units, smallest first. */
export type UnitTable = readonly (readonly [unit: string, size: number])[];

/** "0", or digits without a leading zero, then letters; no sign, fraction, exponent or space. */
const grammar = /^(0|[1-9][0-9]{0,15})([A-Za-z]*)$/;

/** The exact value in base units, or undefined when the text breaks the grammar or leaves the safe integers. */
export function readQuantity(text: string, units: UnitTable): number | undefined {
  const [, digits, name] = grammar.exec(text) ?? [];
  const unit = units.find(([candidate]) => candidate === name);
  if (digits === undefined || unit === undefined) return undefined;
  const value = Number(digits) * unit[1];
  return Number.isSafeInteger(value) ? value : undefined;
}

/**
 * The shortest exact text: the unit that leaves the smallest whole number, of equals the larger. A value that no text
 * stands for (negative, fractional) is shown in the smallest unit as it is, and is refused when read back.
 */
export function showQuantity(value: number, units: UnitTable): string {
  const exact = units.filter(([, size]) => value > 0 && value % size === 0);
  const [name, size] = exact.at(-1) ?? units[0] ?? ['', 1];
  return `${value / size}${name}`;
}
