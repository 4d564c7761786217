import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { PawlError } from '../../src/core/errors.js';
import {
  defineTool,
  isTool,
  notStarted,
  permissionDenied,
  readToolMark,
  type ToolOptions,
} from '../../src/core/tool.js';
import { wordsOf } from '../../src/core/words.js';

const execute = () => null;
const base = { name: 'charge', description: 'Charges a card', execute };

function refusal(define: () => unknown): PawlError {
  try {
    define();
  } catch (thrown) {
    if (thrown instanceof PawlError) return thrown;
    throw thrown;
  }
  throw new Error('nothing was refused');
}

describe('defineTool', () => {
  it('fills the documented defaults', () => {
    const tool = defineTool(base);
    expect(tool).toMatchObject({ effect: 'none', effectDeclared: false, attempts: 3, timeoutMs: 30_000 });
    expect(tool).toMatchObject({ maxOutputChars: 4_000, queue: 'tool', sequential: false, onUnknown: 'ask' });
    expect(tool.parameters).toEqual({ type: 'object', properties: {}, required: [] });
    expect(isTool(tool)).toBe(true);
    expect(defineTool({ ...base, effect: 'once', pool: 'cards' })).toMatchObject({ attempts: 1, queue: 'cards' });
  });

  it.each<[string, object, RegExp]>([
    ['a name with a space', { name: 'a b' }, /name must be 1 to 64 letters.*"a b"/],
    ['no name', { name: undefined }, /name must be .* not nothing/],
    ['a name of 65 letters', { name: 'a'.repeat(65) }, /1 to 64/],
    ['a name every object has', { name: 'constructor' }, /constructor.*choose another/],
    ['__proto__ as a name', { name: '__proto__' }, /__proto__/],
    ['no description', { description: ' ' }, /"charge": description must be text/],
    ['a long description', { description: 'x'.repeat(1_001) }, /1001 characters; at most 1000/],
    ['no execute', { execute: 3 }, /execute must be a function/],
    ['an unknown option', { timeoutMS: 5 }, /no option timeoutMS \(did you mean timeoutMs\?\)/],
    ['an unknown effect', { effect: 'twice' }, /effect must be one of 'none', 'idempotent', 'once'/],
    ['attempts on a once tool', { effect: 'once', attempts: 2 }, /attempts is 2.*never repeated: leave attempts out/],
    ['attempts of zero', { attempts: 0 }, /attempts must be a whole number from 1/],
    ['half an attempt', { attempts: 1.5 }, /not 1.5 \(number\)/],
    ['a timeout that no timer holds', { timeoutMs: 1e12 }, /timeoutMs must be a whole number from 1 to 2147483647/],
    ['NaN characters', { maxOutputChars: Number.NaN }, /maxOutputChars/],
    ['a bad pool', { pool: 'My Pool' }, /pool must be a lower-case letter/],
    ['a pool that is Pawl’s', { pool: 'llm' }, /a queue Pawl has itself/],
    ['onUnknown without once', { onUnknown: 'tell' }, /onUnknown is only for effect 'once'/],
    ['an unknown policy', { effect: 'once', onUnknown: 'guess' }, /'ask', 'tell' or a function/],
    ['a schema that is text', { input: 'string' }, /input cannot be used/],
    ['a root that is a list', { input: z.array(z.string()) }, /root must be an object, and has type "array"/],
    ['a root that is a union', { input: z.union([z.object({}), z.string()]) }, /root must be an object/],
    ['a date', { input: z.object({ at: z.date() }) }, /Date cannot be represented/],
    ['a JSON Schema without a type', { input: { properties: {} } }, /root must be an object, and has no type/],
    [
      'a JSON Schema that is none',
      { input: { type: 'object', properties: { a: { type: 'text' } } } },
      /schema is invalid/,
    ],
    ['a remote $ref', { input: { type: 'object', $ref: 'https://example.com/s' } }, /points outside the schema/],
    ['a nested remote $ref', { input: { type: 'object', properties: { a: { $ref: 'b.json' } } } }, /b\.json/],
    ['$data', { input: { type: 'object', properties: { a: { minimum: { $data: '1/b' } } } } }, /uses \$data/],
    ['an endless pattern', { input: { type: 'object', properties: { a: { pattern: '(' } } } }, /input cannot be used/],
  ])('refuses %s and says what to do', (_, change, message) => {
    const error = refusal(() => defineTool({ ...base, ...change } as ToolOptions));
    expect(error.code).toBe('config_invalid');
    expect(error.message).toMatch(message);
  });

  it('keeps results only of a tool without an effect', () => {
    expect(defineTool({ ...base, effect: 'none', cacheMs: 5 }).cacheMs).toBe(5);
    for (const effect of ['idempotent', 'once'] as const) {
      expect(() => defineTool({ ...base, effect, cacheMs: 5 })).toThrow(
        /cacheMs is only for effect 'none', and the effect is '.*': a call with an effect is never left out/,
      );
      expect(defineTool({ ...base, effect, cacheMs: 0 }).cacheMs).toBe(0);
    }
  });

  it.each([{ approval: true }, { approval: () => true }])('refuses %o as not built', (change) => {
    const error = refusal(() => defineTool({ ...base, ...change } as ToolOptions));
    expect(error.code).toBe('not_built');
    expect(error.message).toContain(`tool "charge": ${Object.keys(change)[0]} is not built`);
  });

  it('takes the neutral values of options that are not built', () => {
    const neutral = { approval: undefined } as const;
    expect(isTool(defineTool({ ...base, ...neutral }))).toBe(true);
  });

  it('lets a property of a schema be named like a keyword', () => {
    const input = { type: 'object', properties: { $ref: { type: 'string' }, $data: { type: 'string' } } };
    expect(defineTool({ ...base, input }).parse('{"$ref":"https://x","$data":"y"}').ok).toBe(true);
  });

  it('hands execute the parsed arguments and the context as they are', () => {
    const seen: unknown[] = [];
    const input = z.object({ cents: z.number() });
    const tool = defineTool({ ...base, input, execute: (args, context) => seen.push(args.cents, context.attempt) });
    const parsed = tool.parse('{"cents":3}');
    const context = { attempt: 2 } as Parameters<typeof tool.execute>[1];
    if (parsed.ok) tool.execute(parsed.args, context);
    expect(seen).toEqual([3, 2]);
  });
});

describe('the arguments of a call', () => {
  const tool = defineTool({
    ...base,
    input: z.object({
      orderId: z.string(),
      cents: z.number().int().default(5),
      items: z.array(z.object({ sku: z.string() })).optional(),
      card: z
        .union([z.object({ kind: z.literal('visa'), n: z.string() }), z.object({ kind: z.literal('cash') })])
        .optional(),
      free: z.looseObject({}).optional(),
    }),
  });
  const fault = (text: string) => {
    const parsed = tool.parse(text);
    return parsed.ok ? 'accepted' : parsed.fault;
  };

  it('get their declared defaults', () => {
    const text = '{ "orderId": "x" }';
    expect(tool.parse(text)).toEqual({
      ok: true,
      args: { orderId: 'x', cents: 5 },
      text,
      canonical: '{"orderId":"x"}',
    });
  });

  it('are named by path, expected and got where they do not fit', () => {
    const text = fault('{"orderId":7,"cents":"12","items":[{"sku":1}]}');
    expect(text).toContain('- orderId: expected string; got 7 (number)');
    expect(text).toContain('- cents: expected number; got "12" (string)');
    expect(text).toContain('- items[0].sku: expected string; got 1 (number)');
    expect(fault('{}')).toContain('- orderId: expected string; got nothing');
  });

  it('are refused where undeclared, at any depth', () => {
    expect(fault('{"orderId":"x","amount":1}')).toContain(
      '- amount: expected no such field: the fields here are orderId, cents, items, card, free; got 1 (number)',
    );
    expect(fault('{"orderId":"x","items":[{"sku":"a","qty":2}]}')).toContain('- items[0].qty: expected no such field');
    expect(fault('{"orderId":"x","card":{"kind":"visa","n":"1","cvc":2}}')).toContain(
      '- card.cvc: expected no such field',
    );
    expect(fault('{"orderId":"x","card":{"kind":"cash"}}')).toBe('accepted');
  });

  it('pass undeclared where the schema allows them', () => {
    expect(fault('{"orderId":"x","free":{"anything":{"at":"all"}}}')).toBe('accepted');
    const open = defineTool({ ...base, input: z.looseObject({ a: z.string() }) });
    expect(open.parse('{"a":"x","b":1}')).toMatchObject({ ok: true, args: { a: 'x', b: 1 } });
  });

  it.each(['', '   ', 'null', '{}', '\n\t'])('read %j as no arguments', (text) => {
    const none = defineTool({ ...base, input: z.object({ n: z.number().default(1) }) });
    const parsed = none.parse(text);
    expect(parsed).toMatchObject({ ok: true, args: { n: 1 }, canonical: '{}' });
  });

  it('lose one level of double encoding, and only where they failed with it', () => {
    expect(tool.parse('"{\\"orderId\\":\\"x\\"}"')).toMatchObject({ ok: true, text: '{"orderId":"x"}' });
    expect(tool.parse('{"orderId":"x","items":"[{\\"sku\\":\\"a\\"}]"}')).toMatchObject({
      ok: true,
      text: '{"orderId":"x","items":[{"sku":"a"}]}',
    });
    expect(tool.parse('{"orderId":"{\\"a\\":1}"}')).toMatchObject({ args: { orderId: '{"a":1}' } });
    expect(tool.parse('"\\"{}\\""').ok).toBe(false);
  });

  it.each(['{"a":', '[1]', '3', '"x"', '{"orderId":"x","__proto__":{}}', '['.repeat(100_000), '{"a":'.repeat(300)])(
    'that cannot be used are kept as an object that shows them (%#)',
    (text) => {
      const parsed = tool.parse(text);
      expect(parsed.ok).toBe(false);
      const kept: unknown = JSON.parse(parsed.text);
      expect(kept).toEqual({ invalid_arguments: expect.any(String) });
      expect(parsed.text.length).toBeLessThan(5_000);
    },
  );

  it('nested too deep or too long are refused unread', () => {
    const free = defineTool({ ...base, input: z.looseObject({}) });
    expect(free.parse(`{"a":${'['.repeat(1_000)}${']'.repeat(1_000)}}`).ok).toBe(false);
    expect(free.parse(`{"a":"${'x'.repeat(1_000_001)}"}`).ok).toBe(false);
  });

  it('hold neither U+0000 nor half a character, however they were escaped', () => {
    const parsed = tool.parse('{"orderId":"\\ud83d\\u0000"}');
    expect(parsed).toMatchObject({ ok: true, args: { orderId: '\ufffd\ufffd' }, text: '{"orderId":"\ufffd\ufffd"}' });
  });

  it('are checked by a throwing or an asynchronous schema without a throw', () => {
    const throwing = z.object({ a: z.string().refine(() => Promise.resolve(false)) });
    expect(defineTool({ ...base, input: throwing }).parse('{"a":"x"}').ok).toBe(false);
  });

  it('have one canonical form, whatever the order of their keys and the spaces between', () => {
    const input = { type: 'object', additionalProperties: true };
    const open = defineTool({ ...base, input });
    expect(open.parse('{"b":1,"a":{"d":1,"c":[2]}}').canonical).toBe('{"a":{"c":[2],"d":1},"b":1}');
    expect(open.parse(' { "a" : {"c":[2],"d":1.0}, "b":1 }').canonical).toBe('{"a":{"c":[2],"d":1},"b":1}');
  });

  it('read as the same call again when their stored text is parsed', () => {
    const given = fc.oneof(
      fc.json().map((text) => text),
      fc
        .record({ orderId: fc.string(), cents: fc.integer() }, { requiredKeys: ['orderId'] })
        .map((args) => JSON.stringify(args)),
      fc
        .array(fc.record({ sku: fc.string() }))
        .map((items) => JSON.stringify({ orderId: 'x', items: JSON.stringify(items) })),
      fc.string({ unit: 'binary' }),
    );
    fc.assert(
      fc.property(given, fc.boolean(), (text, encode) => {
        const first = tool.parse(encode ? JSON.stringify(text) : text);
        const again = tool.parse(first.text);
        expect(typeof JSON.parse(first.text)).toBe('object');
        if (first.ok) expect(again).toEqual(first);
        else expect(again.ok).toBe(false);
      }),
    );
  });

  it('are faulted in the words of the agent’s language', () => {
    expect(tool.parse('{}', wordsOf('zh'))).toMatchObject({ fault: expect.stringContaining('应为 string') });
  });
});

describe('a JSON Schema object as input', () => {
  const tool = defineTool({
    ...base,
    input: {
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      properties: {
        unit: { enum: ['C', 'F'], default: 'C' },
        place: { $ref: '#/definitions/place' },
        pair: { type: 'array', items: [{ type: 'number' }, { type: 'string' }] },
        free: { type: 'object' },
        either: { anyOf: [{ properties: { a: { type: 'string' } }, required: ['a'] }, { properties: { b: {} } }] },
      },
      required: ['place'],
      if: { properties: { unit: { const: 'F' } }, required: ['unit'] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { required: ['pair'] },
      definitions: {
        place: { type: 'object', properties: { city: { type: 'string', minLength: 2 } }, required: ['city'] },
      },
    },
    execute: (args) => args.place,
  });
  const fault = (value: unknown) => {
    const parsed = tool.parse(JSON.stringify(value));
    return parsed.ok ? 'accepted' : parsed.fault;
  };

  it('fills defaults and follows if/then and local references', () => {
    expect(tool.parse('{"place":{"city":"Ulm"}}')).toMatchObject({ args: { unit: 'C', place: { city: 'Ulm' } } });
    expect(fault({ place: { city: 'Ulm' }, unit: 'F' })).toContain('- pair: expected a value; got nothing');
    expect(fault({ place: { city: 'U' } })).toContain('- place.city: expected NOT have fewer than 2 characters');
    expect(fault({ place: {} })).toContain('- place.city: expected string; got nothing');
    expect(fault({ place: { city: 'Ulm' }, unit: 'K' })).toContain(
      '- unit: expected one of "C", "F"; got "K" (string)',
    );
    expect(fault({ place: { city: 'Ulm' }, pair: ['x', 'y'] })).toContain('- pair[0]: expected number');
  });

  it('refuses undeclared fields, also behind references and beside alternatives', () => {
    expect(fault({ place: { city: 'Ulm' }, town: 1 })).toContain('- town: expected no such field');
    expect(fault({ place: { city: 'Ulm', zip: 1 } })).toContain('- place.zip: expected no such field');
    expect(fault({ place: { city: 'Ulm' }, either: { a: 'x', c: 1 } })).toContain('- either.c: expected no such field');
    expect(fault({ place: { city: 'Ulm' }, either: { a: 'x', b: 1 } })).toBe('accepted');
    expect(fault({ place: { city: 'Ulm' }, free: { any: 1 } })).toBe('accepted');
  });

  it('is shown to the model as it was given', () => {
    expect(tool.parameters).toMatchObject({ type: 'object', required: ['place'], definitions: {} });
    expect(tool.parameters.additionalProperties).toBeUndefined();
  });

  it('takes no arguments at all when it declares none', () => {
    expect(defineTool({ ...base, input: { type: 'object' } }).parse('{"a":1}').ok).toBe(false);
  });
});

describe('what a tool can say beside a result', () => {
  it('is read whether it comes from this copy of Pawl or another', () => {
    expect(readToolMark(permissionDenied('not yours'))).toEqual({ kind: 'permission_denied', message: 'not yours' });
    expect(readToolMark(notStarted())).toEqual({ kind: 'not_started', message: '' });
    const foreign = { [Symbol.for('pawl.toolMark')]: 'not_started', message: 'down' };
    expect(readToolMark(foreign)).toEqual({ kind: 'not_started', message: 'down' });
  });

  it('is nothing else', () => {
    const hostile = new Proxy(
      {},
      {
        get: () => {
          throw new Error('no');
        },
      },
    );
    for (const other of [null, undefined, 'x', {}, new Error('x'), hostile]) expect(readToolMark(other)).toBeNull();
  });
});

describe('reasoning', () => {
  const tool = defineTool({
    ...base,
    input: z.object({ q: z.string(), page: z.number().default(1) }),
    reasoning: z.object({ why: z.string().min(5), sources: z.array(z.string()).default([]) }),
  });

  it('is asked of the model before the arguments, and required', () => {
    expect(Object.keys(tool.parameters.properties as object)).toEqual(['reasoning', 'q', 'page']);
    expect(tool.parameters.required).toEqual(['reasoning', 'q']);
  });

  it('is read apart from the arguments, and makes no call another', () => {
    const parsed = tool.parse('{"q":"a","reasoning":{"why":"because"}}');
    expect(parsed).toMatchObject({
      ok: true,
      args: { q: 'a', page: 1 },
      reasoning: { why: 'because', sources: [] },
      text: '{"q":"a","reasoning":{"why":"because"}}',
      canonical: '{"q":"a"}',
    });
    expect(tool.parse('{"reasoning":{"why":"otherwise"},"q":"a"}').canonical).toBe(parsed.canonical);
  });

  it.each([
    ['{"q":"a"}', '- reasoning: expected object; got nothing'],
    ['{"q":"a","reasoning":"because"}', '- reasoning: expected object; got "because" (string)'],
    ['{"q":"a","reasoning":{"why":"no"}}', '- reasoning.why: '],
    [
      '{"q":"a","reasoning":{"why":"because","sources":[1]}}',
      '- reasoning.sources[0]: expected string; got 1 (number)',
    ],
    ['{"q":1,"reasoning":{"why":"because"}}', '- q: expected string; got 1 (number)'],
    ['{"q":"a","reasoning":{"why":"because","x":1}}', '- reasoning.x: expected no such field'],
    ['[]', 'not an object'],
  ])('that does not fit is told by its path: %s', (given, told) => {
    const parsed = tool.parse(given);
    expect(parsed.ok ? '' : parsed.fault).toContain(told);
  });

  it.each<[string, object, RegExp]>([
    ['no object', { reasoning: z.string() }, /reasoning cannot be used: its root must be an object/],
    [
      'an input that has one itself',
      { input: z.object({ reasoning: z.string() }), reasoning: z.object({}) },
      /reasoning cannot be used: input has a field reasoning itself/,
    ],
    [
      'references',
      { reasoning: { type: 'object', properties: { a: { $ref: '#/$defs/a' } }, $defs: { a: { type: 'string' } } } },
      /reasoning cannot be used: it must not hold references/,
    ],
  ])('is refused where it is %s', (_, options, message) => {
    expect(() => defineTool({ ...base, ...options } as ToolOptions)).toThrow(message);
  });
});
