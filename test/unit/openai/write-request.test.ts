/** Requests as they go over the wire: whatever sound history they are made of, the strictest provider would take them. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { callIdOf, type Message } from '../../../src/core/message.js';
import { type Dialect, dialectOf } from '../../../src/openai/dialects.js';
import { faultOfHistory, writeRequest } from '../../../src/openai/write-request.js';
import type { LlmRequest } from '../../../src/ports.js';
import { findBreach } from '../../../src/testing/strictness.js';

const plain = dialectOf('some-model');

function request(over: Partial<LlmRequest> = {}): LlmRequest {
  return {
    model: 'some-model',
    system: 'You add numbers.',
    messages: [{ role: 'user', content: 'Add 1 and 2.' }],
    tools: [],
    outputSchema: null,
    temperature: null,
    maxOutputTokens: null,
    timeoutMs: 1_000,
    ...over,
  };
}

const toolCall = (id: string, args = '{}') => ({ id, name: 'add', arguments: args });
const asks = (...ids: string[]): Message => ({
  role: 'assistant',
  content: null,
  toolCalls: ids.map((id) => toolCall(id)),
});
const result = (callId: string): Message => ({ role: 'tool', callId, name: 'add', content: '3' });
const task: Message = { role: 'user', content: 'go' };

describe('A request', () => {
  it('holds nothing that was not set: no null, no empty list', () => {
    expect(writeRequest(request(), plain)).toEqual({
      model: 'some-model',
      messages: [
        { role: 'system', content: 'You add numbers.' },
        { role: 'user', content: 'Add 1 and 2.' },
      ],
    });
  });

  it('writes tools, calls and results in the words of the API', () => {
    const parameters = { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object', properties: {} };
    const body = writeRequest(
      request({
        messages: [task, asks('c1'), result('c1')],
        tools: [{ name: 'add', description: 'Adds', parameters }],
      }),
      plain,
    );
    expect(body.messages.slice(2)).toEqual([
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'add', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: '3' },
    ]);
    expect(body.tools).toEqual([
      {
        type: 'function',
        function: { name: 'add', description: 'Adds', parameters: { type: 'object', properties: {} } },
      },
    ]);
  });

  it('has null content only beside calls', () => {
    const silent: Message = { role: 'assistant', content: null, toolCalls: [] };
    expect(writeRequest(request({ messages: [task, silent, task] }), plain).messages[2]).toEqual({
      role: 'assistant',
      content: '',
    });
  });

  it('bounds the reply and sets the temperature as the model takes them', () => {
    const set = request({ temperature: 0, maxOutputTokens: 50 });
    expect(writeRequest(set, plain)).toMatchObject({ temperature: 0, max_tokens: 50 });
    const body = writeRequest(set, dialectOf('o3-mini'));
    expect(body).toMatchObject({ max_completion_tokens: 50 });
    expect(body).not.toHaveProperty('temperature');
    expect(body).not.toHaveProperty('max_tokens');
  });

  it('asks for the output schema, strictly where every property is required', () => {
    const closed = {
      type: 'object',
      properties: { sum: { type: 'number' } },
      required: ['sum'],
      additionalProperties: false,
    };
    expect(writeRequest(request({ outputSchema: closed }), plain).response_format).toEqual({
      type: 'json_schema',
      json_schema: { name: 'answer', strict: true, schema: closed },
    });
    const open = { ...closed, required: [] };
    expect(writeRequest(request({ outputSchema: open }), plain)).toMatchObject({
      response_format: { json_schema: { strict: false } },
    });
  });

  it('says the output schema in words at the end of the system message where the model takes no format', () => {
    const dialect: Dialect = { ...plain, outputSchema: 'words' };
    const body = writeRequest(request({ outputSchema: { type: 'object', title: 'Sum' } }), dialect);
    expect(body).not.toHaveProperty('response_format');
    expect(body.messages[0]?.content).toMatch(
      /^You add numbers\.\n\n.*JSON Schema:\n\{"type":"object","title":"Sum"\}$/s,
    );
    expect(body.messages.filter((message) => message.role === 'system')).toHaveLength(1);
  });

  it('brings reasoning back only to a model that wants it, and then on every assistant message', () => {
    const messages: Message[] = [
      task,
      { role: 'assistant', content: null, toolCalls: [toolCall('c1')], reasoning: 'hm' },
      result('c1'),
    ];
    expect(writeRequest(request({ messages }), plain).messages[2]).not.toHaveProperty('reasoning_content');
    const echoing: Dialect = { ...plain, echoReasoning: true };
    expect(writeRequest(request({ messages }), echoing).messages[2]).toMatchObject({ reasoning_content: 'hm' });
    expect(writeRequest(request({ messages: [task, asks('c1'), result('c1')] }), echoing).messages[2]).toMatchObject({
      reasoning_content: '',
    });
  });

  it('is one the strictest provider takes, whatever the texts and however many the turns', () => {
    const text = fc.string({ unit: 'binary' }).map((said) => `${said}\ud83d`);
    const turn = fc.record({
      content: fc.option(text),
      reasoning: text,
      calls: fc.array(fc.dictionary(fc.string(), fc.jsonValue()), { maxLength: 4 }),
      results: text,
    });
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 5 }), text, fc.boolean(), (turns, system, echoReasoning) => {
        let seq = 0;
        const messages = turns.flatMap((made): Message[] => {
          const toolCalls = made.calls.map((args) => ({
            id: callIdOf(++seq),
            name: 'add',
            arguments: JSON.stringify(args),
          }));
          return [
            { role: 'assistant', content: made.content, toolCalls, reasoning: made.reasoning },
            ...toolCalls.map(({ id }): Message => ({ role: 'tool', callId: id, name: 'add', content: made.results })),
          ];
        });
        const history: Message[] = [task, ...messages];
        expect(faultOfHistory(history)).toBeNull();
        const body = writeRequest(request({ system, messages: history, maxOutputTokens: 5 }), {
          ...plain,
          echoReasoning,
        });
        expect(findBreach(JSON.parse(JSON.stringify(body)))).toBeNull();
      }),
      { numRuns: 200 },
    );
  });
});

describe('History that no provider would take is refused before it is sent', () => {
  it.each<[string, Message[]]>([
    ['no message at all', []],
    ['a call without its result', [task, asks('c1')]],
    ['a call whose result comes too late', [task, asks('c1'), task, result('c1')]],
    ['one of two results missing', [task, asks('c1', 'c2'), result('c1'), task]],
    ['a result nothing asked for', [task, result('c1')]],
    ['the same result twice', [task, asks('c1'), result('c1'), result('c1')]],
    ['one id for two calls', [task, asks('c1', 'c1'), result('c1'), result('c1')]],
    [
      'arguments that do not parse',
      [task, { role: 'assistant', content: null, toolCalls: [toolCall('c1', '{"x":')] }, result('c1')],
    ],
    [
      'arguments that are no object',
      [task, { role: 'assistant', content: null, toolCalls: [toolCall('c1', '[1]')] }, result('c1')],
    ],
  ])('%s', (_, messages) => expect(faultOfHistory(messages)).not.toBeNull());
});
