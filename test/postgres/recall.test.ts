/** Recall by letters, which only Postgres does, and only where it has pg_trgm. The rest is in the store's contract. */
import { expect, it } from 'vitest';
import { wordsIn } from '../../src/core/fact.js';
import { createPool } from '../../src/postgres/pool.js';
import { createRecall } from '../../src/postgres/recall.js';
import { createTestDatabase } from '../support/services.js';

const reader = { tenant: null, agent: 'clerk', threadId: null };

it('finds a word that is spelt otherwise, and without the extension whole words', async () => {
  const pool = createPool({ url: (await createTestDatabase()).url, max: 1, applicationName: 'test' });
  const facts = ['Invoices go to Ada Lovelace', 'The office is in Lyon'];
  for (const value of facts) {
    await pool.query(
      `insert into pawl.facts (scope, owner, key, value, words, run_id, seq) values ('agent', 'clerk', $1, $1, $2, 'r', 1)`,
      [value, wordsIn(value).join(' ')],
    );
  }
  const finds = async (query: string) =>
    (await createRecall(pool).recall(reader, { query, most: 5, all: false })).map(({ value }) => value);
  expect(await finds('lovelase')).toEqual([facts[0]]);
  expect(await finds('Ada?')).toEqual(facts.slice(0, 1));
  expect(await finds('zebra')).toEqual([]);
  await pool.query('drop extension pg_trgm');
  expect(await finds('lovelase')).toEqual([]);
  expect(await finds('lovelace')).toEqual([facts[0]]);
  await pool.end();
});
