/**
 * The four forms of a result: a table for people, JSON as the documented surface says, one JSON object a line, or ids
 * only. Results go to stdout whole before the command ends. Next: width.ts, terminal.ts.
 */
import { createRequire } from 'node:module';
import { Option } from 'commander';
import type { Terminal } from './terminal.js';
import { clip, widthOf } from './width.js';

const formats = ['table', 'json', 'jsonl', 'id'] as const;
export type Format = (typeof formats)[number];

export const outputOption = () =>
  new Option('-o, --output <format>', 'form of the result').choices(formats).default('table' satisfies Format);

/** What ends the help of a command. */
export function examples(...lines: readonly string[]): string {
  return `\n${lines.length === 1 ? 'Example' : 'Examples'}:\n${lines.map((line) => `  $ ${line}`).join('\n')}`;
}

/** One line of JSON. Characters that a terminal would obey are written as escapes, which JSON reads back the same. */
export function jsonLine(value: unknown): string {
  return escapeControls(JSON.stringify(value));
}

export function jsonText(value: unknown): string {
  return escapeControls(JSON.stringify(value, null, 2));
}

function escapeControls(json: string): string {
  return json.replace(/[\u007f-\u009f]/g, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** A list, in the envelope of the documented surface where it is JSON. */
export interface Listed<T> {
  data: readonly T[];
  next?: string | null;
  idOf: (item: T) => string | number;
  /** For people; may also print what is not a table. */
  table: (items: readonly T[]) => string;
  /** Said instead of an empty table. */
  none: string;
}

export function printList<T>(terminal: Terminal, format: Format, list: Listed<T>): void {
  switch (format) {
    case 'json':
      return terminal.out(jsonText({ data: list.data, page: { next: list.next ?? null } }));
    case 'jsonl':
      for (const item of list.data) terminal.out(jsonLine(item));
      return;
    case 'id':
      for (const item of list.data) terminal.out(String(list.idOf(item)));
      return;
    case 'table':
      if (list.data.length === 0) return terminal.say(list.none);
      return terminal.out(list.table(list.data));
  }
}

/** A list in the JSON envelope of the documented surface, written item by item, so that none has to be kept. */
export function openJsonList(terminal: Terminal): { add(item: unknown): void; end(): void } {
  let last: string | null = null;
  return {
    add(item) {
      terminal.out(last === null ? '{\n  "data": [' : `${last},`);
      last = jsonText(item).replaceAll(/^/gm, '    ');
    },
    end() {
      terminal.out(last === null ? jsonText({ data: [], page: { next: null } }) : `${last}\n  ],\n${noNextPage}`);
    },
  };
}

const noNextPage = '  "page": {\n    "next": null\n  }\n}';

export function printOne<T>(terminal: Terminal, format: Format, item: T, id: string, text: () => string): void {
  switch (format) {
    case 'json':
      return terminal.out(jsonText(item));
    case 'jsonl':
      return terminal.out(jsonLine(item));
    case 'id':
      return terminal.out(id);
    case 'table':
      return terminal.out(text());
  }
}

export interface Column {
  title: string;
  align?: 'left' | 'right';
  /** Takes the columns that are left, and is cut when there are not enough. One column of a table may. */
  stretches?: boolean;
}

/** Columns without borders, cut to the window where people read them. Cells are one line of text, coloured or not. */
export function table(terminal: Terminal, columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const widths = columns.map((column, index) =>
    Math.max(widthOf(column.title), ...rows.map((row) => widthOf(row[index] ?? ''))),
  );
  const stretching = columns.findIndex((column) => column.stretches === true);
  if (terminal.isTerminal && stretching >= 0) {
    const others = widths.reduce((sum, width, index) => sum + (index === stretching ? 0 : width + gap.length), 0);
    const least = widthOf(columns[stretching]?.title ?? '');
    widths[stretching] = Math.max(least, Math.min(widths[stretching] ?? 0, terminal.columns - others));
  }
  const fitted = rows.map((row) =>
    row.map((cell, index) => (index === stretching ? clip(cell, widths[index] ?? 0) : cell)),
  );
  const drawn = new (loadTable())({
    head: columns.map((column) => terminal.paintOut('dim', column.title)),
    colAligns: columns.map((column) => column.align ?? 'left'),
    chars: borderless,
    style: { 'padding-left': 0, 'padding-right': 0, head: [], border: [], compact: true },
  });
  drawn.push(...fitted.map((row) => [...row]));
  return drawn
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .filter((line) => line !== '')
    .join('\n');
}

const gap = '  ';
const borderless = {
  ...{ top: '', 'top-mid': '', 'top-left': '', 'top-right': '', bottom: '', 'bottom-mid': '', 'bottom-left': '' },
  ...{ 'bottom-right': '', left: '', 'left-mid': '', mid: '', 'mid-mid': '', right: '', 'right-mid': '' },
  middle: gap,
};

/** Loaded when the first table is drawn: most commands print none. */
function loadTable(): typeof import('cli-table3') {
  return createRequire(import.meta.url)('cli-table3') as typeof import('cli-table3');
}
