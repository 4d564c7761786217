/**
 * The kill matrix: a real worker process is killed, its queue wiped, or both, in each gap of the protocol, for each kind of
 * step, on each queue. Whatever was hit, the run ends as PROTOCOL.md says, and its invariants hold. Cases are played side by
 * side, in lanes that have a database and a queue each; the tests below wait for theirs. `npm run kill-matrix` prints the table.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestDatabase, createTestRedis, queueBackends } from '../support/services.js';
import { type Case, casesOn, crashesToDeath, expectedOf } from './cases.js';
import { type Played, playCase } from './play.js';
import { openStage, type Stage } from './stage.js';
import { type Result, writeTable } from './table.js';
import { Victims } from './victims.js';

/** All of them; PAWL_TEST_CASES, a pattern over their ids, plays some. */
const chosen = new RegExp(process.env.PAWL_TEST_CASES ?? '');
const cases = queueBackends()
  .flatMap(casesOn)
  .filter(({ id }) => chosen.test(id));
/** Cases at a time: most of each is waiting. */
const lanes = 12;

const results = new Map(cases.map(({ id }) => [id, later<Played>()]));
const ended: Result[] = [];
let stage: Stage;
let victims: Victims;

beforeAll(async () => {
  [stage, victims] = await Promise.all([openStage(cases), Victims.open()]);
  const waiting = [...cases].sort((a, b) => deathsIn(b) - deathsIn(a));
  for (let lane = 0; lane < lanes; lane++) void playInTurn(waiting);
});

/** The cases that take longest come first, or one of them would be the last to end, alone. */
function deathsIn({ kind, place, blow }: Case): number {
  if (place !== 'after_death') return blow === 'wipe' ? 0 : 1;
  return kind === 'idempotent' || kind === 'once' ? crashesToDeath + 1 : 2;
}

/** A lane: takes the next case while there is one, with one database and one of Redis for all of them. */
async function playInTurn(waiting: Case[]): Promise<void> {
  let database = createTestDatabase();
  const redis = queueBackends().includes('redis') ? createTestRedis() : null;
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const one = next;
    const playing = (async () => {
      const redisUrl = one.backend === 'redis' ? ((await redis)?.url ?? null) : null;
      return playCase(one, { stage, victims, database: await database, redisUrl });
    })();
    const played = await playing.catch(() => null);
    // Nobody knows what was left in it.
    if (played === null) database = createTestDatabase();
    ended.push({ case: one, played });
    results.get(one.id)?.resolve(playing);
  }
}

function later<T>(): { promise: Promise<T>; resolve: (value: T | Promise<T>) => void } {
  let resolve: (value: T | Promise<T>) => void = () => {};
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  // A case that fails is reported by its test, which may not wait for it yet.
  promise.catch(() => {});
  return { promise, resolve };
}

afterAll(async () => {
  await Promise.allSettled([...results.values()].map(({ promise }) => promise));
  await Promise.all([stage.close(), victims.close()]);
  const place = new Map(cases.map(({ id }, index) => [id, index]));
  ended.sort((a, b) => (place.get(a.case.id) ?? 0) - (place.get(b.case.id) ?? 0));
  process.stdout.write(`\n${writeTable(ended)}\n`);
}, 300_000);

describe('the run ends and its invariants hold after', () => {
  const named = cases.map((one) => [`${one.blow} ${one.place} of step ${one.kind} on ${one.backend}`, one] as const);
  it.each(named)('%s', { timeout: 600_000 }, async (_name, one) => {
    const played = await (results.get(one.id)?.promise ?? Promise.reject(new Error('not played')));
    const { recoveredMs: _, seen, ...left } = played;
    expect(left, seen).toEqual({ ...expectedOf(one), breaches: [] });
  });
});
