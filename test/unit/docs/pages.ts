/** Reads pages of documentation for the tests that hold them to the code. */
import { readFileSync } from 'node:fs';

export function page(path: string): string {
  return readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
}

/** The part of a page under the heading, up to the next heading of its level or above. */
export function section(text: string, heading: string): string {
  const lines = text.split('\n');
  const start = lines.indexOf(heading);
  if (start < 0) throw new Error(`there is no heading ${heading}`);
  const level = heading.indexOf(' ');
  const length = lines.slice(start + 1).findIndex((line) => /^#+ /.test(line) && line.indexOf(' ') <= level);
  return lines.slice(start, length < 0 ? undefined : start + 1 + length).join('\n');
}

/** The cells of each row of the first table, without its head; code marks are taken off cells that hold nothing else. */
export function tableRows(text: string): string[][] {
  const lines = text.split('\n');
  const first = lines.findIndex((line) => line.startsWith('|'));
  const after = lines.findIndex((line, index) => index > first && !line.startsWith('|'));
  return lines.slice(first + 2, after < 0 ? undefined : after).map((line) =>
    line
      .slice(1, line.lastIndexOf('|'))
      .split('|')
      .map((cell) => cell.trim().replace(/^`([^`]*)`$/, '$1')),
  );
}

/** The fenced blocks of a language. */
export function blocks(text: string, language: string): string[] {
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)]
    .filter(([, found]) => found === language)
    .map(([, , body = '']) => body);
}
