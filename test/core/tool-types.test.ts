// The compiler is the test here: `tsc` fails on an @ts-expect-error that has no error to expect.
import { expect, it } from 'vitest';
import { z } from 'zod';
import { defineTool } from '../../src/core/tool.js';

it('infers the arguments of execute and onUnknown from the schema', () => {
  const input = z.object({ orderId: z.string(), cents: z.number().default(1), note: z.string().optional() });
  const tool = defineTool({
    name: 'charge',
    description: 'd',
    effect: 'once',
    input,
    onUnknown: async ({ args }) => ({ done: args.orderId.length }),
    execute: async (args, ctx) => {
      const cents: number = args.cents;
      const note: string | undefined = args.note;
      return { cents, note, key: ctx.idempotencyKey.length };
    },
  });
  expect(tool.name).toBe('charge');
});

it('refuses at compile time a handler that does not fit its schema', () => {
  const input = z.object({ cents: z.number() });
  const options = { name: 't', description: 'd', input };
  // @ts-expect-error cents is a number
  defineTool({ ...options, execute: (args: { cents: string }) => args });
  // @ts-expect-error there is no such argument
  defineTool({ ...options, execute: (args) => args.amount });
  // @ts-expect-error cents is a number
  defineTool({ name: 't', description: 'd', input, execute: async (args) => args.cents.toUpperCase });
  // @ts-expect-error no such effect
  expect(() => defineTool({ ...options, effect: 'twice', execute: () => 1 })).toThrow();
  // @ts-expect-error not built yet
  expect(() => defineTool({ ...options, approval: true, execute: () => 1 })).toThrow();
});

it('infers what check is given from input and reasoning', () => {
  const options = { name: 't', description: 'd', input: z.object({ cents: z.number() }), execute: () => 1 };
  const reasoning = z.object({ why: z.string() });
  defineTool({ ...options, reasoning, check: ({ cents }, ctx) => (cents > 1 ? ctx.reasoning.why : undefined) });
  // @ts-expect-error there is no such reason
  defineTool({ ...options, reasoning, check: (_, ctx) => ctx.reasoning.because });
  // @ts-expect-error no reasoning is demanded
  defineTool({ ...options, check: (_, ctx) => ctx.reasoning.why });
  expect(reasoning).toBeDefined();
});

it('gives the arguments of a JSON Schema as an object of unknown values', () => {
  const input = { type: 'object', properties: { a: { type: 'string' } } };
  defineTool({ name: 't', description: 'd', input, execute: (args) => args.a });
  // @ts-expect-error a JSON Schema says nothing to the compiler
  defineTool({ name: 't', description: 'd', input, execute: (args) => args.a.length });
  expect(input.type).toBe('object');
});
