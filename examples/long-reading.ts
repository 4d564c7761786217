/**
 * A long task with large outputs: an agent reads a text page by page, more of it than its window holds. What it has read is summed
 * up by a step of its own, again and again, which the steps and the run's page show.
 *
 *   export PAWL_CONFIG=examples/long-reading.ts BOOK=book.txt
 *   npx pawl dev                                                 # in one terminal; the rest in another
 *   npx pawl run reader "Who is named in the book, and on which page first?"
 *   npx pawl runs show run_…                                     # … are summed up: the prompt shrank from 4377 to 2120 tokens
 */
import { readFile } from 'node:fs/promises';
import { defineAgent, defineConfig, defineTool } from 'pawl';
import { z } from 'zod';

const pageChars = 3_000;

const readPage = defineTool({
  name: 'read_page',
  description: 'Reads a page of the book; pages count from 1',
  effect: 'none',
  input: z.object({ page: z.number().int().positive() }),
  execute: async ({ page }) => {
    const book = await readFile(process.env.BOOK ?? 'book.txt', 'utf8');
    const pages = Math.ceil(book.length / pageChars);
    if (page > pages) throw new Error(`the book has ${pages} pages`);
    return `Page ${page} of ${pages}:\n${book.slice((page - 1) * pageChars, page * pageChars)}`;
  },
});

export default defineConfig({
  agents: [
    defineAgent({
      name: 'reader',
      instructions: 'Read the book page by page, note what was asked for, and answer when you have read all of it.',
      tools: [readPage],
      limits: { maxSteps: 200, maxTurns: 100 },
      // Small, so that a short book is enough to see it; left out, it is what the model holds.
      context: { windowTokens: 6_000, compactAt: 0.8, compactTo: 0.5, keepTurns: 4 },
    }),
  ],
});
