/**
 * Withdraws a tool from the agents that have it, and gives it back. Both are told of what workers have registered, so that a
 * slip of the pen stops nothing else; both may be asked for twice.
 */
import { PawlError } from '../core/errors.js';
import { didYouMean } from '../core/nearest.js';
import type { ToolListing } from '../core/view.js';
import type { Reads, Store } from '../ports.js';

export interface ToolSwitch {
  /** Only for this agent; left out: for each that has the tool. */
  agent?: string | null | undefined;
}

/** Throws `not_found` where no agent has the tool, `unknown_agent` where that one has not. */
export async function disableTool(
  { store, reads }: { store: Store; reads: Reads },
  tool: string,
  { agent = null }: ToolSwitch = {},
): Promise<ToolListing> {
  await findTool(reads, tool, agent);
  await store.stopTool({ tool, agent });
  return findTool(reads, tool, agent);
}

/** Throws `conflict` for an agent from which the tool was withdrawn together with all others. */
export async function enableTool(
  { store, reads }: { store: Store; reads: Reads },
  tool: string,
  { agent = null }: ToolSwitch = {},
): Promise<ToolListing> {
  const { disabledFor } = await findTool(reads, tool, agent);
  if (agent !== null && disabledFor === 'all') {
    const fix = `enable it for all, and disable it for the others`;
    throw new PawlError('conflict', `${tool} is disabled for every agent, not for ${agent} alone: ${fix}`);
  }
  await store.allowTool({ tool, agent });
  return findTool(reads, tool, agent);
}

async function findTool(reads: Reads, name: string, agent: string | null): Promise<ToolListing> {
  const tools = await reads.tools();
  const tool = tools.find((known) => known.name === name);
  if (tool === undefined) {
    const hint = didYouMean(
      name,
      tools.map((known) => known.name),
    );
    throw new PawlError('not_found', `no worker has registered a tool named ${JSON.stringify(name)}${hint}`);
  }
  if (agent !== null && !tool.agents.includes(agent)) {
    const owners = `the agents that have it: ${tool.agents.join(', ')}`;
    throw new PawlError('unknown_agent', `no agent named ${JSON.stringify(agent)} has ${name}; ${owners}`);
  }
  return tool;
}
