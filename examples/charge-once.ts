/**
 * A tool that must never be repeated. When a call of it is cut short, by a worker's death, a lost connection or a timeout,
 * nobody knows whether the card was charged: the run waits, names the step, and a person who has looked says what happened.
 *
 *   export PAWL_CONFIG=examples/charge-once.ts BANK_URL=https://bank.example/charges
 *   npx pawl dev                                                 # in one terminal; the rest in another
 *   npx pawl run cashier "Charge 1200 cents for order A-7"       # exit status 5 if it waits, and the commands to type
 *   npx pawl runs resolve run_… --step 2 --as done --result '{"charged":1200}'
 */
import { defineAgent, defineConfig, defineTool, notStarted } from 'pawl';
import { z } from 'zod';

const bank = process.env.BANK_URL ?? 'http://127.0.0.1:9090/charges';

const charge = defineTool({
  name: 'charge',
  description: 'Charges the card of an order',
  effect: 'once',
  onUnknown: 'ask', // the default; 'tell' tells the model that nobody knows, and a function may ask the bank
  input: z.object({ orderId: z.string(), cents: z.number().int().positive().max(100_000) }),
  timeoutMs: 20_000,
  execute: async (args, { idempotencyKey, signal }) => {
    const response = await fetch(bank, {
      method: 'POST',
      body: JSON.stringify(args),
      headers: { 'content-type': 'application/json', 'idempotency-key': idempotencyKey },
      signal,
    });
    // The bank refused: certainly nothing was charged, and saying so lets the model hear of it at once.
    if (response.status >= 400 && response.status < 500) throw notStarted(`the bank refused: ${response.status}`);
    if (!response.ok) throw new Error(`the bank answered ${response.status}`);
    return response.json();
  },
});

export default defineConfig({
  agents: [
    defineAgent({
      name: 'cashier',
      instructions: 'Charge each order exactly as you are told, with one call, then say what was charged.',
      tools: [charge],
      limits: { maxSteps: 10 },
    }),
  ],
});
