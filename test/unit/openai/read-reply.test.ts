/** Answers with status 200, sound and unsound: only a whole reply is a success, and nothing a server sends is a TypeError. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readReply } from '../../../src/openai/read-reply.js';

const asked = { model: 'asked', maxOutputTokens: 100 };
const usage = { prompt_tokens: 10, completion_tokens: 5 };

function answer(message: unknown, finish_reason: unknown = 'stop', more: Record<string, unknown> = {}) {
  return { model: 'answering', choices: [{ message, finish_reason }], usage, ...more };
}
const call = (name: unknown, args: unknown) => ({ id: 'x', type: 'function', function: { name, arguments: args } });
const callsOf = (...calls: unknown[]) => ({ role: 'assistant', content: null, tool_calls: calls });

function codeOf(body: unknown): string {
  const reading = readReply(body, asked);
  return reading.ok ? 'ok' : `${reading.failure.class} ${reading.failure.code} ${reading.failure.reason}`;
}

describe('A whole reply', () => {
  it('is read as text with the model that answered', () => {
    expect(readReply(answer({ content: 'hello' }), asked)).toMatchObject({
      ok: true,
      reply: { content: 'hello', calls: [], model: 'answering' },
      usage: { inputTokens: 10, outputTokens: 5 },
    });
  });

  it('is read as calls in the order of the model, text beside them kept', () => {
    const body = answer({ content: 'let me see', tool_calls: [call('a', '{"x":1}'), call('b', '{}')] }, 'tool_calls');
    expect(readReply(body, asked)).toMatchObject({
      reply: {
        content: 'let me see',
        calls: [
          { name: 'a', arguments: '{"x":1}' },
          { name: 'b', arguments: '{}' },
        ],
      },
    });
  });

  it('may finish with stop beside calls, may send arguments as an object, as nothing, or the call in the old form', () => {
    expect(readReply(answer(callsOf(call('a', { x: 1 }))), asked)).toMatchObject({
      reply: { calls: [{ arguments: '{"x":1}' }] },
    });
    expect(readReply(answer(callsOf(call('a', null))), asked)).toMatchObject({ reply: { calls: [{ arguments: '' }] } });
    const old = answer({ content: null, function_call: { name: 'a', arguments: '{}' } }, 'function_call');
    expect(readReply(old, asked)).toMatchObject({ reply: { calls: [{ name: 'a', arguments: '{}' }] } });
  });

  it('hands on arguments that do not parse, for the model to be told of', () => {
    expect(readReply(answer(callsOf(call('a', '{"x":'))), asked)).toMatchObject({
      ok: true,
      reply: { calls: [{ arguments: '{"x":' }] },
    });
  });

  it('may bring text in parts, and its reasoning in either spelling', () => {
    const parts = [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }, null, 7];
    expect(readReply(answer({ content: parts, reasoning_content: 'hm' }), asked)).toMatchObject({
      reply: { content: 'ab', reasoning: 'hm' },
    });
    expect(readReply(answer({ content: 'a', reasoning: 'hm' }), asked)).toMatchObject({ reply: { reasoning: 'hm' } });
  });
});

describe('A reply that is not whole', () => {
  const invalid = 'retryable invalid_response invalid_response';
  const truncated = 'retryable truncated invalid_response';
  const cases: [string, unknown, string][] = [
    ['nothing', undefined, invalid],
    ['null', null, invalid],
    ['a string', 'hello', invalid],
    ['no choices', { usage }, invalid],
    ['empty choices', { choices: [], usage }, invalid],
    ['choices that are no list', { choices: { 0: {} } }, invalid],
    ['a choice without a message', { choices: [{ finish_reason: 'stop' }] }, invalid],
    ['empty text and no calls', answer({ content: '' }), invalid],
    ['white space and no calls', answer({ content: ' \n' }), invalid],
    ['null text and no calls', answer({ content: null }), invalid],
    ['only reasoning', answer({ content: null, reasoning_content: 'hm' }), invalid],
    ['text that is a number', answer({ content: 42 }), invalid],
    ['a finish for calls with none', answer({ content: 'I will call' }, 'tool_calls'), invalid],
    ['an empty list of calls with that finish', answer({ content: 'x', tool_calls: [] }, 'tool_calls'), invalid],
    ['no finish reason', answer({ content: 'x' }, null), invalid],
    ['a finish reason of another kind', answer({ content: 'x' }, 7), invalid],
    ['an unknown finish reason', answer({ content: 'x' }, 'tired'), invalid],
    ['calls that are no list', answer({ content: 'x', tool_calls: { a: 1 } }), invalid],
    ['a call that is null', answer(callsOf(null)), invalid],
    ['a call without a name', answer(callsOf(call(undefined, '{}'))), invalid],
    ['a good call beside a broken one', answer(callsOf(call('a', '{}'), {})), invalid],
    ['text cut off', answer({ content: 'half' }, 'length'), truncated],
    ['calls cut off', answer(callsOf(call('a', '{"x":')), 'length'), truncated],
    ['calls cut off, in valid JSON', answer(callsOf(call('a', '{}')), 'length'), truncated],
    ['a refusal', answer({ content: null, refusal: 'I cannot help with that' }), 'terminal refused refused'],
    ['a filtered answer', answer({ content: 'half' }, 'content_filter'), 'terminal content_filter content_filter'],
    [
      'a provider out of resources',
      answer({ content: 'half' }, 'insufficient_system_resource'),
      'retryable server_error attempts_exhausted',
    ],
  ];
  it.each(cases)('%s', (_, body, expected) => expect(codeOf(body)).toBe(expected));

  it('never yields calls when it used all the tokens it was allowed, whatever it says of its finish', () => {
    for (const completion_tokens of [100, 101, 5_000]) {
      for (const finish of ['tool_calls', 'stop']) {
        const body = answer(callsOf(call('pay', '{"cents":1}')), finish, { usage: { ...usage, completion_tokens } });
        expect(codeOf(body)).toBe(truncated);
      }
    }
  });

  it('is text that ends exactly at its maximum; beyond it the server does not heed the maximum', () => {
    const at = (completion_tokens: number) =>
      answer({ content: 'x' }, 'stop', { usage: { ...usage, completion_tokens } });
    expect([99, 100, 101].map((count) => codeOf(at(count)))).toEqual(['ok', truncated, 'ok']);
  });

  it('keeps what it cost', () => {
    expect(readReply(answer({ content: 'half' }, 'length'), asked)).toMatchObject({
      usage: { inputTokens: 10, outputTokens: 5 },
      produced: 'half',
    });
  });
});

describe('Any JSON at all', () => {
  it('is read without throwing, and a success holds text or named calls', () => {
    const part = fc.oneof(fc.jsonValue(), fc.constantFrom('stop', 'tool_calls', 'length', null));
    const body = fc.oneof(
      fc.jsonValue(),
      fc.record({
        choices: fc.array(
          fc.record({
            finish_reason: part,
            message: fc.record(
              {
                content: part,
                tool_calls: fc.oneof(
                  part,
                  fc.array(fc.record({ function: fc.record({ name: part, arguments: part }) })),
                ),
                refusal: part,
              },
              { requiredKeys: [] },
            ),
          }),
        ),
        usage: fc.oneof(part, fc.record({ prompt_tokens: part, completion_tokens: part })),
      }),
    );
    fc.assert(
      fc.property(body, (value) => {
        const reading = readReply(value, asked);
        if (!reading.ok) return reading.failure.message !== '';
        const { content, calls } = reading.reply;
        return (content !== null && content !== '') || (calls.length > 0 && calls.every((made) => made.name !== ''));
      }),
      { numRuns: 500 },
    );
  });
});
