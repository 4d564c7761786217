/** What may be withdrawn, and what is said of what may not. */
import { expect, it } from 'vitest';
import type { ToolStop } from '../../src/core/tool-stop.js';
import type { ToolListing } from '../../src/core/view.js';
import { disableTool, enableTool } from '../../src/engine/switch-tool.js';
import type { Reads, Store } from '../../src/ports.js';

const charge: ToolListing = {
  name: 'charge',
  description: 'Charges a card',
  effect: 'once',
  effectDeclared: true,
  agents: ['billing', 'refunds'],
  disabledFor: [],
  outFor: [],
};

function parts(disabledFor: ToolListing['disabledFor'] = []) {
  const asked: ToolStop[] = [];
  const note = async (stop: ToolStop) => asked.push(stop) > 0;
  const reads = { tools: async () => [{ ...charge, disabledFor }] } as unknown as Reads;
  return { asked, reads, store: { stopTool: note, allowTool: note } as unknown as Store };
}

it('withdraws a tool from one agent or from all', async () => {
  const given = parts();
  expect(await disableTool(given, 'charge')).toMatchObject({ name: 'charge' });
  await disableTool(given, 'charge', { agent: 'billing' });
  await enableTool(given, 'charge', { agent: 'billing' });
  expect(given.asked).toEqual([null, 'billing', 'billing'].map((agent) => ({ tool: 'charge', agent })));
});

it.each([
  ['chrage', {}, 'not_found', 'no worker has registered a tool named "chrage" (did you mean charge?)'],
  ['charge', { agent: 'bill' }, 'unknown_agent', 'the agents that have it: billing, refunds'],
])('refuses %s %j', async (tool, options, code, message) => {
  const given = parts();
  for (const ask of [disableTool, enableTool]) {
    await expect(ask(given, tool, options)).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
  }
  expect(given.asked).toEqual([]);
});

it('does not give a tool back to one agent that was withdrawn from all', async () => {
  const refused = enableTool(parts('all'), 'charge', { agent: 'billing' });
  await expect(refused).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('for every agent'),
  });
});
