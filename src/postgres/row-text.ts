/**
 * A row as JSON text, written column by column from the row's own object: three rows of some forty columns are written for
 * each step, most of them empty, and JSON.stringify of a copy without the empty ones takes three times as long.
 */

type Row = { readonly [column: string]: unknown };

/** Writes the named columns that hold something; what is left out is null. `fixed`: columns of another object, written first. */
export function rowWriter(names: readonly string[]): (from: object, fixed?: object) => string {
  const keys = names.map((name) => `"${name}":`);
  return (from, fixed) => {
    const row = from as Row;
    let text = fixed === undefined ? '{' : JSON.stringify(fixed).slice(0, -1);
    let comma = text === '{' ? '' : ',';
    for (let at = 0; at < keys.length; at++) {
      const value = row[names[at] as string];
      if (value === null || value === undefined) continue;
      text += comma + keys[at] + valueText(value);
      comma = ',';
    }
    return `${text}}`;
  };
}

let lastDate: Date | null = null;
let lastText = '';

/** The times of one record are few, and most of them the same object. Dates are never changed. */
function valueText(value: unknown): string {
  if (typeof value === 'boolean' || Number.isSafeInteger(value)) return `${value}`;
  if (!(value instanceof Date)) return JSON.stringify(value);
  if (value !== lastDate) {
    lastDate = value;
    lastText = JSON.stringify(value);
  }
  return lastText;
}
