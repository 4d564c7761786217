/**
 * `npm run interleavings -- --minutes 5 --seed N`: plays interleavings one after the other, from the seed on, until the time
 * is over or one breaks an invariant; then tells its story. `--count 1` plays that seed alone. Exit status 1: broken.
 */
import { parseArgs } from 'node:util';
import { playOne, type Told } from './play.js';

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '1' }, seed: { type: 'string' }, count: { type: 'string' } },
});

function numberOf(name: 'minutes' | 'seed' | 'count', otherwise: number): number {
  const value = values[name] === undefined ? otherwise : Number(values[name]);
  if (!(value >= 0)) throw new Error(`--${name} is a number of 0 or more`);
  return value;
}

const first = numberOf('seed', Math.floor(Math.random() * 1_000_000_000));
const endsAt = performance.now() + numberOf('minutes', 1) * 60_000;
const count = numberOf('count', Number.POSITIVE_INFINITY);
let actions = 0;
let played = 0;
let failed: Told | null = null;
const beganAt = performance.now();
while (failed === null && played < count && performance.now() < endsAt) {
  const told = await playOne(first + played);
  played += 1;
  actions += told.actions;
  if (told.broken.length > 0) failed = told;
}
const seconds = (performance.now() - beganAt) / 1_000;
if (failed !== null) console.log([...failed.story, '', ...failed.broken].join('\n'));
console.log(
  `${played} interleavings from seed ${first} on, ${actions} actions, ${Math.round((played / seconds) * 60)} a minute: ` +
    (failed === null ? 'every invariant held' : `seed ${failed.seed} broke one`),
);
process.exit(failed === null ? 0 : 1);
