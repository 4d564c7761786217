/** What the model is shown of a run that grows: the engine on fakes, a scripted model, and the requests it got. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent } from '../../src/core/agent.js';
import { defineTool } from '../../src/core/tool.js';
import { wordsOf } from '../../src/core/words.js';
import type { LlmRequest } from '../../src/ports.js';
import type { Script } from '../../src/testing/script.js';
import { scriptedLlm } from '../../src/testing/scripted-llm.js';
import { Town } from '../support/town.js';

const words = wordsOf('en');
let town: Town;

beforeEach(() => {
  town = new Town();
});
afterEach(() => town.close());

const read = defineTool({
  name: 'read',
  description: 'reads a page',
  effect: 'none',
  input: z.object({ page: z.number() }),
  execute: ({ page }) => `page ${page}`,
});

function agent(more: Partial<Parameters<typeof defineAgent>[0]> = {}) {
  return defineAgent({ name: 'reader', instructions: 'Read.', model: 'scripted', tools: [read], ...more });
}

/** Reads pages 1 to `pages`, and then answers. */
const reads =
  (pages: number): Script =>
  (_, { callIndex }) =>
    callIndex < pages ? { calls: [{ name: 'read', arguments: { page: callIndex + 1 } }] } : 'read';

const llm = (script: Script) => scriptedLlm(script, { sleep: (ms, signal) => town.clock.sleep(ms, signal) });

const lastWordOf = (request: LlmRequest | undefined) => request?.messages.at(-1)?.content ?? '';

describe('the last turns before a limit', () => {
  it('are counted down at the end of the request, and its head stays as it was', async () => {
    const model = llm(reads(4));
    await town.startWorker({ agents: [agent()], llm: model });
    const id = await town.start({ agent: 'reader', limits: { maxTurns: 4 } });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', reason: 'max_turns' });
    const told = [3, 2, 1].map((left) => words.turnsLeft(left, 'finish'));
    expect(model.requests.map(lastWordOf)).toEqual(['go', ...told, words.lastTurn('max_turns')]);
    for (const [index, request] of model.requests.slice(1).entries()) {
      const before = model.requests[index]?.messages ?? [];
      const unsaid = before.filter(({ content }) => !content?.startsWith('[Pawl]'));
      expect(JSON.stringify(request.messages.slice(0, unsaid.length))).toBe(JSON.stringify(unsaid));
      expect(request.system).toBe(model.requests[0]?.system);
    }
    town.check(id);
  });

  it('are none of the concern of an agent without tools', async () => {
    const model = llm(() => 'done');
    await town.startWorker({ agents: [agent({ tools: [] })], llm: model });
    await town.settled(await town.start({ agent: 'reader', limits: { maxTurns: 1 } }));
    expect(lastWordOf(model.requests[0])).toBe('go');
  });
});
