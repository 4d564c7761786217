/** `pawl agents list` and `pawl tools list`: what workers have registered in the database. */
import type { Command } from 'commander';
import type { AgentListing, ToolListing } from '../core/view.js';
import type { Cli } from './cli.js';
import { formatAge, formatMs } from './format.js';
import { type Column, examples, type Format, outputOption, printList, printOne, table } from './output.js';
import { clip, oneLine } from './width.js';
import { withRuns } from './world.js';

const none = (what: string) => `no worker has registered ${what} yet; start one with pawl dev or pawl worker`;

export function addAgents(program: Command, cli: Cli): void {
  const agents = program.command('agents').description('the agents that workers have registered');
  const columns: Column[] = [
    ...[
      { title: 'NAME' },
      { title: 'MODEL' },
      { title: 'TOOLS', stretches: true },
      { title: 'LIMITS' },
      { title: 'VERSION' },
    ],
    { title: 'REGISTERED', align: 'right' },
  ];
  agents
    .command('list')
    .description('agents, with their models, tools and limits')
    .addOption(outputOption())
    .addHelpText('after', examples('pawl agents list'))
    .action(async ({ output }: { output: Format }) => {
      const { terminal, now } = cli.world;
      const data = await withRuns(cli.world, ({ runs }) => runs.agents());
      const row = (agent: AgentListing): string[] => [
        ...[
          agent.name,
          clip(oneLine([agent.model, ...(agent.fallbacks ?? [])].join(', ')), 48),
          clip(agent.tools.map(({ name }) => name).join(', '), 60),
          limitsText(agent),
        ],
        ...[agent.version, agent.registeredAt === null ? '' : `${formatAge(agent.registeredAt, now())} ago`],
      ];
      const draw = (items: readonly AgentListing[]) => table(terminal, columns, items.map(row));
      printList(terminal, output, { data, idOf: ({ name }) => name, table: draw, none: none('an agent') });
    });
}

function limitsText({ limits }: AgentListing): string {
  const deadline = limits.deadlineMs === null ? '' : `, ${formatMs(limits.deadlineMs)}`;
  // An agent registered by an older program has no budgets.
  const tokens = limits.maxTokens == null ? '' : `, ${limits.maxTokens} tokens`;
  const cost = limits.maxCostUsd == null ? '' : `, $${limits.maxCostUsd}`;
  return `${limits.maxSteps} steps, ${limits.maxTurns} turns${tokens}${cost}${deadline}, then ${limits.onLimit}`;
}

export function addTools(program: Command, cli: Cli): void {
  const tools = program.command('tools').description('the tools of those agents, and their withdrawal');
  const columns: Column[] = [
    { title: 'NAME' },
    { title: 'EFFECT' },
    { title: 'AGENTS' },
    { title: 'STATE' },
    { title: 'DESCRIPTION', stretches: true },
  ];
  tools
    .command('list')
    .description('tools, with what a repeated call would do')
    .addOption(outputOption())
    .addHelpText('after', examples('pawl tools list'))
    .action(async ({ output }: { output: Format }) => {
      const { terminal } = cli.world;
      const data = await withRuns(cli.world, ({ runs }) => runs.tools());
      const row = (tool: ToolListing): string[] => [
        ...[
          tool.name,
          tool.effectDeclared ? tool.effect : `${tool.effect} (by default)`,
          clip(tool.agents.join(', '), 40),
        ],
        ...[stateOf(tool), clip(oneLine(tool.description), 100)],
      ];
      const draw = (items: readonly ToolListing[]) => table(terminal, columns, items.map(row));
      printList(terminal, output, { data, idOf: ({ name }) => name, table: draw, none: none('a tool') });
    });
  addSwitch(tools, cli, 'disable', 'withdraw a tool from every run at once; the model is told to do without it');
  addSwitch(tools, cli, 'enable', 'give a tool back');
}

function addSwitch(tools: Command, cli: Cli, name: 'disable' | 'enable', description: string): void {
  tools
    .command(`${name} <name>`)
    .description(description)
    .option('--agent <name>', 'for this agent alone')
    .addOption(outputOption())
    .addHelpText('after', examples(`pawl tools ${name} charge`, `pawl tools ${name} charge --agent billing`))
    .action(async (tool: string, { agent, output }: { agent?: string; output: Format }) => {
      const { terminal } = cli.world;
      const listing = await withRuns(cli.world, ({ runs }) =>
        name === 'disable' ? runs.disableTool(tool, { agent }) : runs.enableTool(tool, { agent }),
      );
      printOne(terminal, output, listing, tool, () => `${tool}  ${stateOf(listing)}`);
    });
}

function stateOf({ disabledFor, outFor }: ToolListing): string {
  if (disabledFor === 'all') return 'disabled';
  if (outFor.length > 0) return `out of order for ${outFor.join(', ')}`;
  return disabledFor.length === 0 ? 'enabled' : `disabled for ${disabledFor.join(', ')}`;
}
