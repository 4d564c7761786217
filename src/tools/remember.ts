/**
 * Two tools for what outlives a run: one that keeps a fact, one that finds facts again. An agent has them by naming them among
 * its tools. What is written is written with the record of the call, so once; see core/fact.ts for who shares a fact.
 */
import { z } from 'zod';
import { factScopes } from '../core/fact.js';
import { defineTool, type Tool } from '../core/tool.js';
import { type Words, wordsOf } from '../core/words.js';

const english = wordsOf('en');

/** An agent shows the description in its language. */
const described = (tool: Tool, describe: (words: Words) => string): Tool => Object.freeze({ ...tool, describe });

/** Keeps a fact. The same key again replaces the value; the older ones stay as its history. */
export const remember = described(
  defineTool({
    name: 'remember',
    description: english.remember(),
    effect: 'idempotent',
    input: z.object({
      key: z.string().min(1).max(100),
      value: z.string().min(1).max(2_000),
      scope: z.enum(factScopes).optional(),
    }),
    execute: ({ key, scope }, { threadId }) => {
      if (scope === 'thread' && threadId === null)
        throw new Error('this run belongs to no thread: choose another scope');
      return { remembered: key };
    },
    extractFacts: ({ args: { key, value, scope } }) => [{ key, value, ...(scope === undefined ? {} : { scope }) }],
  }),
  (words) => words.remember(),
);

/** Finds facts by relevance to a query, the newest value of each key. */
export const recall = described(
  defineTool({
    name: 'recall',
    description: english.recall(),
    effect: 'none',
    input: z.object({ query: z.string().min(1).max(1_000), most: z.number().int().min(1).max(50).optional() }),
    execute: async ({ query, most }, context) => {
      const facts = await context.recall(query, most ?? 10);
      return facts.map(({ key, value, at }) => ({ key, value, since: at.toISOString().slice(0, 10) }));
    },
  }),
  (words) => words.recall(),
);
