/** I12: no secret stands in any file of the folder, besides the list of them: a log, a row, an event, a request. */
import { type Breach, breachOfAll } from './dossier.js';

export interface TextLine {
  file: string;
  line: number;
  text: string;
}

export function secretsIn({ file, line, text }: TextLine, secrets: readonly string[]): Breach[] {
  return secrets.flatMap((secret, index) =>
    // Named by its place in the list: a report is no place for it either.
    text.includes(secret)
      ? [breachOfAll('I12', `secret ${index + 1} of ${secrets.length} stands in ${file}`, `${file} ${line}`)]
      : [],
  );
}
