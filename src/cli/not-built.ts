/**
 * What the documented surface names and this version does not have: refused by name, with its own exit status, never
 * taken for a typing error and never accepted and ignored.
 */
import { type Command, Option } from 'commander';
import { PawlError } from '../core/errors.js';

const commands = ['schedules', 'keys'];
const ofRuns = ['rerun', 'fork', 'diff', 'approve', 'deny', 'signal', 'export', 'delete', 'migrate'];

export function addNotBuilt(program: Command, groups: { runs: Command }): void {
  for (const name of commands) refuse(program, `pawl ${name}`, name);
  for (const name of ofRuns) refuse(groups.runs, `pawl runs ${name}`, name);
}

function refuse(parent: Command, fullName: string, name: string): void {
  parent
    .command(`${name} [anything...]`, { hidden: true })
    .description('not built in this version')
    .allowUnknownOption()
    .helpOption(false)
    .action(() => {
      throw new PawlError('not_built', `${fullName} is not built in this version`);
    });
}

/** A flag of the documented surface, hidden from the help, that `refuseNotBuilt` answers. */
export function refusedOption(flag: string): Option {
  return new Option(`--${flag} [value]`, 'not built in this version').hideHelp();
}

export function refuseNotBuilt(options: object, flags: readonly string[]): void {
  const given = new Set(Object.keys(options));
  for (const flag of flags) {
    const name = flag.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
    if (given.has(name)) throw new PawlError('not_built', `--${flag} is not built in this version: leave it out`);
  }
}
