/**
 * A search that fails, another way that succeeds, and a result that ends the run: the model hears that the search cannot be
 * reached and looks into the archive; the one hit it finds there is the output, without another call of the model.
 *
 *   export PAWL_CONFIG=examples/another-way.ts SEARCH_URL=http://127.0.0.1:9
 *   npx pawl dev                                                 # in one terminal; the rest in another
 *   npx pawl run finder "The invoice of March 2026"              # completed, stopped_early
 */
import { defineAgent, defineConfig, defineTool } from 'pawl';
import { z } from 'zod';

const query = z.object({ query: z.string().min(1) });

const search = defineTool({
  name: 'search',
  description: 'Searches everything',
  effect: 'none',
  input: query,
  attempts: 2, // tried again as it is; after that the model is told, and to choose another way
  timeoutMs: 5_000,
  execute: async ({ query }, { signal }) => {
    const response = await fetch(`${process.env.SEARCH_URL}/?q=${encodeURIComponent(query)}`, { signal });
    if (!response.ok) throw new Error(`the search answered ${response.status}`);
    return response.json();
  },
});

const documents = ['Invoice 2026-03, 1,200 EUR', 'Invoice 2026-02, 900 EUR', 'Contract 2026-03'];

const archive = defineTool({
  name: 'archive',
  description: 'Searches the archive by words, all of which must be in the title',
  effect: 'none',
  input: query,
  execute: ({ query }) => ({
    hits: documents.filter((title) =>
      query.split(' ').every((word) => title.toLowerCase().includes(word.toLowerCase())),
    ),
  }),
});

export default defineConfig({
  agents: [
    defineAgent({
      name: 'finder',
      instructions: 'Find the one document that is asked for.',
      tools: [search, archive],
      retry: { baseMs: 100, capMs: 1_000 },
      stopWhen: ({ lastToolResult: { value } }) => {
        const { hits } = (value ?? {}) as { hits?: unknown };
        return Array.isArray(hits) && hits.length === 1;
      },
    }),
  ],
});
