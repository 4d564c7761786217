/** What a provider's complaint about a parameter changes, and that nothing changes twice. */
import { describe, expect, it } from 'vitest';
import type { Fault } from '../../../src/openai/classify.js';
import { adapt, type Dialect, dialectOf } from '../../../src/openai/dialects.js';
import { isStrict } from '../../../src/openai/strict-schema.js';

const sent = { model: 'm', messages: [], max_tokens: 10, temperature: 0.2, response_format: {} };
const fault = (message: string, more: Partial<Fault> = {}): Fault => ({
  status: 400,
  code: null,
  type: null,
  param: null,
  html: false,
  retryAfterMs: null,
  message,
  ...more,
});
const none = new Set<keyof Dialect>();
const changeFor = (message: string, more: Partial<Fault> = {}, dialect = dialectOf('m')) =>
  adapt(dialect, fault(message, more), sent, none)?.dialect ?? null;

describe('A complaint about a parameter', () => {
  it.each<[string, Partial<Fault>, Partial<Dialect>]>([
    [
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      { param: 'max_tokens', code: 'unsupported_parameter' },
      { maxTokensField: 'max_completion_tokens' },
    ],
    [
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      { code: 'invalid_request_body' },
      { maxTokensField: 'max_completion_tokens' },
    ],
    [
      "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
      { param: 'temperature', code: 'unsupported_value' },
      { temperature: false },
    ],
    ['This response_format type is unavailable now', { code: 'invalid_request_error' }, { outputSchema: 'words' }],
    ['response_format.type `json_schema` is unavailable now', { status: 422 }, { outputSchema: 'words' }],
    ["Invalid schema for response_format 'answer'", { param: 'response_format' }, { outputSchema: 'words' }],
    ['Missing `reasoning_content` field in the assistant message at message index 2.', {}, { echoReasoning: true }],
    ['The `reasoning_content` in the thinking mode must be passed back to the API.', {}, { echoReasoning: true }],
  ])('%s', (message, more, expected) => {
    expect(changeFor(message, more)).toEqual({ ...dialectOf('m'), ...expected });
  });

  it('changes the bound of the reply back for a server that knows only the old one', () => {
    const dialect = dialectOf('o3');
    const body = { max_completion_tokens: 10 };
    expect(
      adapt(dialect, fault('Unrecognized request argument supplied: max_completion_tokens'), body, none)?.dialect
        .maxTokensField,
    ).toBe('max_tokens');
  });

  it('stops the echo of reasoning where it is not allowed', () => {
    const dialect = dialectOf('m', { echoReasoning: true });
    expect(changeFor("property 'messages.2.reasoning_content' is unsupported", {}, dialect)?.echoReasoning).toBe(false);
  });

  it.each<[string, Partial<Fault>]>([
    ['max_tokens is too large: 100000. This model supports at most 16384 completion tokens.', { param: 'max_tokens' }],
    ["Invalid 'temperature': decimal above maximum value. Expected a value <= 2.", { param: 'temperature' }],
    ["Unsupported parameter: 'top_k'", { param: 'top_k' }],
    ["Unsupported parameter: 'max_tokens' is not supported with this model.", { status: 500 }],
    ['Something else entirely is not supported', {}],
  ])('that asks for no other way to say it changes nothing: %s', (message, more) => {
    expect(changeFor(message, more)).toBeNull();
  });

  it('changes no parameter that was changed before', () => {
    const changed = new Set<keyof Dialect>(['maxTokensField']);
    expect(adapt(dialectOf('m'), fault("'max_tokens' is not supported"), sent, changed)).toBeNull();
  });
});

describe('The dialect of a model', () => {
  it('follows its name, and its configuration before that', () => {
    expect(dialectOf('gpt-5-mini')).toMatchObject({ maxTokensField: 'max_completion_tokens', temperature: false });
    expect(dialectOf('gpt-5-chat-latest')).toMatchObject({ maxTokensField: 'max_tokens', temperature: true });
    expect(dialectOf('gpt-4o')).toMatchObject({ maxTokensField: 'max_tokens', temperature: true });
    expect(dialectOf('o3', { temperature: true }).temperature).toBe(true);
  });
});

describe('Strict mode', () => {
  const object = (properties: object, more = {}) => ({
    type: 'object',
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
    ...more,
  });
  it('takes closed objects whose properties are all required, at any depth', () => {
    expect(
      isStrict(
        object({
          days: {
            type: 'array',
            items: object({ day: { type: 'string' }, note: { anyOf: [{ type: 'string' }, { type: 'null' }] } }),
          },
        }),
      ),
    ).toBe(true);
  });
  it.each<[string, Record<string, unknown>]>([
    ['an optional property', object({ a: { type: 'string' } }, { required: [] })],
    ['an open object', object({ a: { type: 'string' } }, { additionalProperties: true })],
    ['an optional property inside', object({ a: object({ b: { type: 'string' } }, { required: [] }) })],
    ['a root that is no object', { type: 'array', items: { type: 'string' } }],
    ['a keyword it does not know', object({ a: { type: 'string', minLength: 1 } })],
    ['a schema that is true', object({ a: true })],
    ['a union of objects at the root', { anyOf: [object({})] }],
  ])('does not take %s', (_, schema) => expect(isStrict(schema)).toBe(false));
});
