/**
 * Two tools for what outlives a run: one that keeps a fact, one that finds facts again. An agent has them by naming them among
 * its tools. What is written is written with the record of the call, so once; see core/fact.ts for who shares a fact.
 */
import { z } from 'zod';
import { factScopes } from '../core/fact.js';
import { defineTool } from '../core/tool.js';

/** Keeps a fact. The same key again replaces the value; the older ones stay as its history. */
export const remember = defineTool({
  name: 'remember',
  description:
    'Keeps a fact beyond this run. key: short and stable, the same key again replaces the value. scope: who shares it: this agent (the default), everything of the tenant, or this thread.',
  effect: 'idempotent',
  input: z.object({
    key: z.string().min(1).max(100),
    value: z.string().min(1).max(2_000),
    scope: z.enum(factScopes).optional(),
  }),
  execute: ({ key, scope }, { threadId }) => {
    if (scope === 'thread' && threadId === null) throw new Error('this run belongs to no thread: choose another scope');
    return { remembered: key };
  },
  extractFacts: ({ args: { key, value, scope } }) => [{ key, value, ...(scope === undefined ? {} : { scope }) }],
});

/** Finds facts by relevance to a query, the newest value of each key. */
export const recall = defineTool({
  name: 'recall',
  description: 'Finds facts that were kept, in this run or in earlier ones, by words of what is looked for.',
  effect: 'none',
  input: z.object({ query: z.string().min(1).max(1_000), most: z.number().int().min(1).max(50).optional() }),
  execute: async ({ query, most }, context) => {
    const facts = await context.recall(query, most ?? 10);
    return facts.map(({ key, value, at }) => ({ key, value, since: at.toISOString().slice(0, 10) }));
  },
});
