/** The commands that the README shows exist, with their flags, and those it calls not built are refused by that name. */
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { pawl } from '../cli/fake-world.js';
import { blocks, page, section } from './pages.js';

/** What stands behind `pawl` on each line of the blocks for shells and crontabs, as words. */
function shownCommands(text: string): string[][] {
  const lines = ['sh', 'cron'].flatMap((language) => blocks(text, language)).flatMap((block) => block.split('\n'));
  return lines.flatMap((line) => {
    const found = /(?:^|&& )(?:npx )?pawl (.*?)(?:\s+#.*)?$/.exec(line);
    return found?.[1] === undefined ? [] : [words(found[1])];
  });
}

function words(line: string): string[] {
  return [...line.matchAll(/"[^"]*(?:"\$\([^)]*\)")?[^"]*"|'[^']*'|\S+/g)].map(([word]) => word);
}

/** The longest run of words that names a command, from its help. */
async function helpOf(command: readonly string[]): Promise<{ path: string[]; help: string }> {
  let path: string[] = [];
  let help = (await pawl(['--help'])).out;
  for (const word of command) {
    const names = [...section(`# x\n${help}`, '# x').matchAll(/^ {2}([a-z][a-z-]*)(?: |$)/gm)].map(([, name]) => name);
    if (!names.includes(word)) break;
    path = [...path, word];
    help = (await pawl([...path, '--help'])).out;
  }
  return { path, help };
}

describe('the README', () => {
  const readme = page('README.md');
  const shown = shownCommands(readme);

  it('shows commands', () => expect(shown.length).toBeGreaterThan(20));

  it.each(shown.map((command) => [command.join(' '), command] as const))('pawl %s', async (_, command) => {
    const { path, help } = await helpOf(command);
    expect(path.length, `pawl ${command[0]} is a command`).toBeGreaterThan(0);
    const next = command[path.length];
    expect(help.includes('\nCommands:\n'), `pawl ${path.join(' ')} ${next ?? ''} names a command`).toBe(false);
    const flags = command.slice(path.length).filter((word) => /^--?[a-z]/.test(word));
    for (const flag of flags) expect(help).toMatch(new RegExp(`(^|[ ,])${flag}[ ,<]`, 'm'));
  });

  it('says of each command that is not built what the command itself says', async () => {
    const listed = [...section(readme, '## What is not built yet').matchAll(/`pawl ([a-z ]+)`/g)].map(
      ([, name = '']) => name,
    );
    const commands = [...new Set(listed)].filter((name) => name !== 'run' && name !== 'runs resume');
    expect(commands.length).toBeGreaterThan(10);
    for (const name of commands) {
      const ran = await pawl(name.split(' '));
      expect(ran.err, name).toContain(`pawl ${name} is not built in this version`);
      expect(ran.exit).toBe(2);
    }
  });
});

it.each(['README.md', 'CONTRIBUTING.md', 'ARCHITECTURE.md'])('the npm scripts that %s names exist', (path) => {
  const { scripts } = JSON.parse(page('package.json')) as { scripts: Record<string, string> };
  const named = [...page(path).matchAll(/npm run (?:-s )?([a-z:-]+)/g)].map(([, name = '']) => name);
  expect(named.length).toBeGreaterThan(0);
  expect(named.filter((name) => scripts[name] === undefined)).toEqual([]);
});

it.each(['README.md', 'CONTRIBUTING.md', 'ARCHITECTURE.md', 'docs/errors.md', 'docs/reasons.md', 'docs/protocol.md'])(
  'the links of %s lead somewhere',
  (path) => {
    const targets = [...page(path).matchAll(/\]\(([^)#]+)\)/g)].map(([, target = '']) => target);
    const base = new URL(`../../../${path}`, import.meta.url);
    expect(targets.filter((target) => !target.includes('://') && !existsSync(new URL(target, base)))).toEqual([]);
  },
);
