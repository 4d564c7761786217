/** The scripted model's rules: each breach of the protocol that a real provider answers with a 400 is found and named. */
import { describe, expect, it } from 'vitest';
import { findBreach } from '../../../src/testing/strictness.js';

const system = { role: 'system', content: 's' };
const user = { role: 'user', content: 'u' };
const call = (id: string, args = '{}', name = 'f') => ({ id, type: 'function', function: { name, arguments: args } });
const asks = (...calls: unknown[]) => ({ role: 'assistant', content: null, tool_calls: calls });
const result = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'r' });
const tool = (name: unknown, parameters: unknown = { type: 'object' }) => ({
  type: 'function',
  function: { name, parameters },
});
const body = (messages: unknown, more: object = {}) => ({ model: 'm', messages, ...more });
const sound = [
  system,
  user,
  asks(call('a'), call('b')),
  result('b'),
  result('a'),
  { role: 'assistant', content: 'x' },
  user,
];

describe('A sound request', () => {
  it('has no breach', () => {
    const schema = { type: 'object', properties: {}, required: [], additionalProperties: false };
    const format = { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } };
    expect(findBreach(body(sound))).toBeNull();
    expect(
      findBreach(
        body(sound, { tools: [tool('f')], temperature: 0, max_tokens: 1, response_format: format, stream: false }),
      ),
    ).toBeNull();
    expect(findBreach(body([system, { role: 'user', content: [{ type: 'text', text: 'u' }] }]))).toBeNull();
  });
});

describe('A breach is found', () => {
  it.each<[string, unknown]>([
    ['a body that is no object', []],
    ['no messages', body([])],
    ['messages that are no list', body('hello')],
    ['no system message', body([user])],
    ['a system message later', body([system, user, system])],
    ['no task', body([system])],
    ['an unknown role', body([system, user, { role: 'developer', content: 'x' }])],
    ['null content without calls', body([system, user, { role: 'assistant', content: null }])],
    ['null content of a user', body([system, { role: 'user', content: null }])],
    ['content of another kind', body([system, { role: 'user', content: 7 }])],
    ['an empty list of calls', body([system, user, { role: 'assistant', content: 'x', tool_calls: [] }])],
    ['calls of a user', body([system, { ...user, tool_calls: [call('a')] }, result('a')])],
    ['a result without a call', body([system, user, result('a')])],
    ['a result of another call', body([system, user, asks(call('a')), result('b')])],
    ['a result twice', body([system, user, asks(call('a')), result('a'), result('a')])],
    ['a missing result', body([system, user, asks(call('a'), call('b')), result('a')])],
    ['a result that comes late', body([system, user, asks(call('a')), user, result('a')])],
    ['a call id twice in a message', body([system, user, asks(call('a'), call('a')), result('a'), result('a')])],
    ['a call id of an earlier turn', body([system, user, asks(call('a')), result('a'), asks(call('a')), result('a')])],
    ['an empty call id', body([system, user, asks(call('')), result('')])],
    ['arguments that do not parse', body([system, user, asks(call('a', '{"x":')), result('a')])],
    ['empty arguments', body([system, user, asks(call('a', '')), result('a')])],
    ['arguments that are no object', body([system, user, asks(call('a', 'null')), result('a')])],
    ['a bad name of a call', body([system, user, asks(call('a', '{}', 'f.g')), result('a')])],
    ['no tools in a list', body(sound, { tools: [] })],
    ['a bad name of a tool', body(sound, { tools: [tool('é')] })],
    ['a name too long', body(sound, { tools: [tool('f'.repeat(65))] })],
    ['a tool twice', body(sound, { tools: [tool('f'), tool('f')] })],
    ['parameters that are no object', body(sound, { tools: [tool('f', { type: 'array' })] })],
    ['a tool choice without tools', body(sound, { tool_choice: 'auto' })],
    ['a null parameter', body(sound, { temperature: null })],
    ['null tools', body(sound, { tools: null })],
    ['no model', { messages: sound }],
    ['streaming', body(sound, { stream: true })],
    ['a maximum of 0', body(sound, { max_tokens: 0 })],
    ['both maxima', body(sound, { max_tokens: 1, max_completion_tokens: 1 })],
    ['a temperature out of range', body(sound, { temperature: 3 })],
    ['a lone surrogate in text', body([system, { role: 'user', content: 'half \ud83d' }])],
    ['a lone surrogate in a key', body(sound, { '\udc00': 1 })],
    [
      'an open schema in strict mode',
      body(sound, {
        response_format: { type: 'json_schema', json_schema: { name: 'a', strict: true, schema: { type: 'object' } } },
      }),
    ],
    ['an unknown format', body(sound, { response_format: { type: 'xml' } })],
  ])('%s', (_, value) => expect(findBreach(value)?.message).toBeTruthy());
});
