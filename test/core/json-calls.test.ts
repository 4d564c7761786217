import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { callsField, historyInJson, instructInJson, readJsonCalls } from '../../src/core/json-calls.js';
import type { Message } from '../../src/core/message.js';
import { wordsOf } from '../../src/core/words.js';

const words = wordsOf('en');
const call = (name: string, given: unknown) => ({ name, arguments: JSON.stringify(given) });
const asked = (...calls: { name: string; arguments: string }[]): Message => ({
  role: 'assistant',
  content: null,
  toolCalls: calls.map((each, index) => ({ ...each, id: `c0000000${index}` })),
});

describe('the instructions', () => {
  const tool = { name: 'look', description: 'looks', parameters: { type: 'object', properties: {}, required: [] } };

  it('tell of the tools, how to call them, and what the answer must be', () => {
    const told = instructInJson({ instructions: 'Help.', tools: [tool], outputSchema: { type: 'object' } }, words);
    expect(told).toMatch(/^Help\.\n\nYou can use tools\./);
    expect(told).toContain(JSON.stringify(tool));
    expect(told).toContain('fits this schema: {"type":"object"}');
  });

  it("are the agent's own where it has no tools", () => {
    expect(instructInJson({ instructions: 'Help.', tools: [], outputSchema: null }, words)).toBe('Help.');
  });
});

describe('a reply', () => {
  it.each([
    ['{"call_tools":[{"name":"look","arguments":{"n":1}}]}', [call('look', { n: 1 })]],
    ['```json\n{"call_tools": [{"name": "look"}]}\n```', [call('look', {})]],
    ['{"call_tools":[{"name":"a","arguments":{}},{"name":"b","arguments":"{}"}]}', [call('a', {}), call('b', {})]],
  ])('asks for tools: %s', (content, calls) => {
    expect(readJsonCalls(content)).toEqual({ is: 'calls', calls });
  });

  it.each(['It is 7.', '{"total":7}', '[1]', 'null', '', 'Say call_tools to call tools.'])(
    'is an answer: %s',
    (content) => {
      expect(readJsonCalls(content)).toEqual({ is: 'answer' });
    },
  );

  it.each([
    ['{"call_tools":[{"name":"look","arguments":{"n":1}}', /./],
    ['I will look.\n{"call_tools": [{"name": "look", "arguments": {}}]}', /./],
    ['{"call_tools":[]}', /no list of calls/],
    ['{"call_tools":{"name":"look"}}', /no list of calls/],
    ['{"call_tools":[{"tool":"look"}]}', /call_tools\[0\] is not/],
    ['{"call_tools":[{"name":"a"},{"name":"b","args":{}}]}', /call_tools\[1\] is not/],
    ['{"call_tools":[{"name":"a"}],"answer":"7"}', /beside call_tools stands answer/],
  ])('is neither: %s', (content, problem) => {
    expect(readJsonCalls(content)).toEqual({ is: 'unreadable', problem: expect.stringMatching(problem) });
  });

  it('is read whatever it is, and never both', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json(),
          fc.json().map((json) => `{"${callsField}":${json}}`),
        ),
        (content) => {
          const read = readJsonCalls(content);
          if (read.is === 'calls') for (const each of read.calls) expect(typeof each.arguments).toBe('string');
          expect(['answer', 'calls', 'unreadable']).toContain(read.is);
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe('the history', () => {
  it('shows calls as the model would have written them, and results as what it is told', () => {
    const history: Message[] = [
      { role: 'user', content: 'go' },
      asked(call('a', { n: 1 }), call('b', {})),
      { role: 'tool', callId: 'c00000000', name: 'a', content: 'one' },
      { role: 'tool', callId: 'c00000001', name: 'b', content: 'two' },
      { role: 'user', content: 'a notice' },
    ];
    expect(historyInJson(history, words)).toEqual([
      { role: 'user', content: 'go' },
      {
        role: 'assistant',
        content: '{"call_tools":[{"name":"a","arguments":{"n":1}},{"name":"b","arguments":{}}]}',
        toolCalls: [],
      },
      { role: 'user', content: '[Pawl] Result of a:\none\n\n[Pawl] Result of b:\ntwo\n\na notice' },
    ]);
  });

  it('of any calls is read again as those calls', () => {
    const calls = fc.array(fc.record({ name: fc.string(), arguments: fc.dictionary(fc.string(), fc.jsonValue()) }), {
      minLength: 1,
    });
    fc.assert(
      fc.property(calls, (given) => {
        const written = given.map((each) => call(each.name, each.arguments));
        const [message] = historyInJson([asked(...written)], words);
        const read = readJsonCalls(message?.content ?? '');
        expect(read).toEqual({
          is: 'calls',
          calls: written.map((each) => ({ ...each, arguments: JSON.stringify(JSON.parse(each.arguments)) })),
        });
      }),
    );
  });
});
