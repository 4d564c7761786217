/**
 * Recall: the facts that a run may see, ranked by full text over words that were cut before they were stored, and by the
 * trigrams of their letters where pg_trgm is there, so that a word that is spelt otherwise is found, too. A reader's facts are
 * ranked one by one: there are as many as its agent, its thread and its tenant have keys.
 */
import type pg from 'pg';
import { type FactReader, type FactScope, type KnownFact, wordsIn } from '../core/fact.js';

interface FactRow {
  scope: FactScope;
  key: string;
  value: string;
  at: Date;
}

/** A part of a word in the query that is as like to a part of the fact as this is a find. */
const likeness = 0.4;

const recallSql = (byLetters: string) => `
with mine as materialized (
  select distinct on (scope, owner, key) id, scope, key, value, words, at from pawl.facts
  where tenant = $1 and ((scope = 'agent' and owner = $2) or (scope = 'tenant' and owner = '') or (scope = 'thread' and owner = $3))
  order by scope, owner, key, id desc
), ranked as (
  select *, ts_rank(to_tsvector('simple', words), to_tsquery('simple', $4)) as by_words, ${byLetters} as by_letters from mine
), found as (
  select *, case when by_words > 0 or by_letters >= ${likeness} then by_words + by_letters else 0 end as relevance from ranked
)
select scope, key, value, at from found where $6 or relevance > 0
order by (by_words > 0) desc, relevance desc, id desc limit $7`;

export function createRecall(pool: pg.Pool) {
  let sql: Promise<string> | null = null;
  return async (
    { tenant, agent, threadId }: FactReader,
    { query, most, all }: { query: string; most: number; all: boolean },
  ): Promise<KnownFact[]> => {
    sql ??= chooseSql(pool).catch((error: unknown) => {
      sql = null;
      throw error;
    });
    const words = wordsIn(query);
    const { rows } = await pool.query<FactRow>(await sql, [
      ...[tenant ?? '', agent, threadId],
      ...[words.map((word) => `'${word}'`).join(' | '), words.join(' ').slice(0, 1_000), all, most],
    ]);
    return rows;
  };
}

/** pg_trgm may be in any schema, or not there: then words are all that facts are found by. */
async function chooseSql(pool: pg.Pool): Promise<string> {
  const { rows } = await pool.query<{ schema: string }>(
    `select quote_ident(n.nspname) as schema from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm'`,
  );
  const [found] = rows;
  if (found === undefined) return recallSql(`case when $5::text is null then 1 else 0 end`);
  return recallSql(`${found.schema}.strict_word_similarity($5, words)`);
}
