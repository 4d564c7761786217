/**
 * A run that remembers for the next: what is said in one run is kept as facts, and the next begins with those that matter to its
 * task. Runs of one thread are shown what was said in it, word for word, and run one after another.
 *
 *   export PAWL_CONFIG=examples/remember-for-the-next.ts
 *   npx pawl dev                                                 # in one terminal; the rest in another
 *   npx pawl run assistant "From now on send the weekly report to Ada"
 *   npx pawl run assistant "Who gets the weekly report?"         # Ada
 *   npx pawl run assistant "And what did I just ask?" --thread desk
 */
import { defineAgent, defineConfig, defineTool, recall, remember } from 'pawl';
import { z } from 'zod';

const findCustomer = defineTool({
  name: 'find_customer',
  description: 'Finds a customer by name',
  effect: 'none',
  input: z.object({ name: z.string() }),
  execute: ({ name }) => ({ name, since: 2019, contact: `${name.toLowerCase()}@example.org` }),
  // A tool may say by itself what is worth keeping: the model need not ask for it.
  extractFacts: ({ args }, result) => [
    { key: `customer ${args.name}`, value: JSON.stringify(result), scope: 'tenant' as const },
  ],
});

export default defineConfig({
  agents: [
    defineAgent({
      name: 'assistant',
      instructions: 'Help with the office. Remember what will matter later, and use what is known.',
      tools: [remember, recall, findCustomer],
      context: { facts: 10 },
    }),
  ],
  // Finds facts by what they mean, too. Where the provider has no such model, they are found by their words.
  embeddingModel: 'text-embedding-3-small',
});
