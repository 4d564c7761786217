/** Commands that are run by hand say what they take, and refuse by name what they do not. */
import { describe, expect, it } from 'vitest';
import { flag, number, oneOf, parseOptions, someOf, text } from '../support/options.js';

const command = {
  name: 'npm run break --',
  says: 'Breaks things.',
  options: {
    seed: number('what is broken', null),
    minutes: number('for how long', 3, { above: true }),
    queue: oneOf('which', ['redis', 'postgres'], 'redis'),
    only: someOf('the kinds', ['kill', 'wipe', 'once without']),
    folder: text('where', null),
    layout: text('who', 'aa', { like: /^[as]+$/, shape: 'LETTERS' }),
    keep: flag('leaves it'),
  },
};
const checker = { name: 'npm run check --', says: 'Checks.', operand: 'FOLDER', options: {} };

describe('the options of a command', () => {
  it('have their values, and otherwise what each says', () => {
    expect(parseOptions(command, [])).toEqual({
      operand: '',
      values: { seed: null, minutes: 3, queue: 'redis', only: null, folder: null, layout: 'aa', keep: false },
    });
    const args = ['--seed', '0', '--minutes=0.5', '--queue', 'postgres', '--only', 'wipe, once without', '--keep'];
    expect(parseOptions(command, [...args, '--folder', 'a', '--layout', 'sa'])).toEqual({
      operand: '',
      values: {
        ...{ seed: 0, minutes: 0.5, queue: 'postgres', only: ['wipe', 'once without'] },
        ...{ folder: 'a', layout: 'sa', keep: true },
      },
    });
    expect(parseOptions(checker, ['here'])).toEqual({ operand: 'here', values: {} });
  });

  it('are all printed by --help, whatever else was typed', () => {
    const read = parseOptions(command, ['--nothing', '--help']);
    const help = 'help' in read ? read.help : '';
    expect(help).toContain('usage: npm run break -- [options]\n\nBreaks things.');
    for (const [name, { says }] of Object.entries(command.options)) {
      expect(help).toMatch(new RegExp(`--${name}.*\n.*${says}`));
    }
    expect(help).toContain('some of kill,wipe,once without');
    expect(help).toContain('redis|postgres');
    expect(parseOptions(checker, ['-h'])).toEqual({ help: expect.stringContaining('npm run check -- FOLDER\n') });
  });

  it.each([
    [['--seeds', '1'], 'there is no option --seeds'],
    [['-x'], 'there is no option -x'],
    [['--seed', 'one'], '--seed is NUMBER from 0 on, and not "one"'],
    [['--seed', '-1'], '--seed is NUMBER from 0 on, and not "-1"'],
    [['--seed'], '--seed is NUMBER from 0 on, and not ""'],
    [['--minutes', '0'], '--minutes is NUMBER above 0, and not "0"'],
    [['--queue', 'kafka'], '--queue is redis|postgres, and not "kafka"'],
    [['--only', 'kill,kil'], '--only is some of kill,wipe,once without, and not "kill,kil"'],
    [['--folder', ''], '--folder is TEXT, and not ""'],
    [['--layout', 'ax'], '--layout is LETTERS, and not "ax"'],
    [['--keep=yes'], '--keep takes no value'],
    [['now'], '"now" is no option'],
  ])('refuse %j by name', (args, refused) => {
    expect(parseOptions(command, args)).toEqual({ refused });
  });

  it('refuse a word that is missing, and one too many', () => {
    expect(parseOptions(checker, [])).toEqual({ refused: 'FOLDER is missing' });
    expect(parseOptions(checker, ['a', 'b'])).toEqual({ refused: '"b" is no option' });
  });
});
