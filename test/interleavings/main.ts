/**
 * `npm run interleavings -- --minutes 5 --seed N`: plays interleavings one after the other, from the seed on, until the time
 * is over or one breaks an invariant; then tells its story. `--count 1` plays that seed alone. Exit status 1: broken.
 */
import { number, readOptions } from '../support/options.js';
import { playOne, type Told } from './play.js';

const { values } = readOptions({
  name: 'npm run interleavings --',
  says: 'Interleavings of the protocol in one process, until one breaks an invariant. Ends with 1 when one did.',
  options: {
    minutes: number('no other is played after that', 1, { above: true }),
    seed: number('of the first; each later one has the next (by chance)', null),
    count: number('how many to play at most (as many as there is time for)', null, { least: 1 }),
  },
});

const first = values.seed ?? Math.floor(Math.random() * 1_000_000_000);
const endsAt = performance.now() + values.minutes * 60_000;
const count = values.count ?? Number.POSITIVE_INFINITY;
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
