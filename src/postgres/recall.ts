/**
 * Recall: the facts that a run may see, ranked by full text over words that were cut before they were stored, and by the
 * trigrams of their letters where pg_trgm is there, so that a word that is spelt otherwise is found, too. A reader's facts are
 * ranked one by one: there are as many as its agent, its thread and its tenant have keys. Vectors are kept beside the facts and
 * compared by core/likeness.ts: no extension is needed for it.
 */
import { endianness } from 'node:os';
import type pg from 'pg';
import { type FactReader, type FactScope, type KnownFact, wordsIn } from '../core/fact.js';
import type { Candidate, Vector } from '../core/likeness.js';

interface FactRow {
  scope: FactScope;
  key: string;
  value: string;
  at: Date;
}

/** A part of a word in the query that is as like to a part of the fact as this is a find. */
const likeness = 0.4;

const foundSql = (byLetters: string) => `
with mine as materialized (
  select distinct on (scope, owner, key) id, scope, key, value, words, at from pawl.facts
  where tenant = $1 and ((scope = 'agent' and owner = $2) or (scope = 'tenant' and owner = '') or (scope = 'thread' and owner = $3))
  order by scope, owner, key, id desc
), ranked as (
  select *, ts_rank(to_tsvector('simple', words), to_tsquery('simple', $4)) as by_words, ${byLetters} as by_letters from mine
), found as (
  select *, case when by_words > 0 or by_letters >= ${likeness} then by_words + by_letters else 0 end as relevance from ranked
), shown as (
  select *, row_number() over (order by (by_words > 0) desc, relevance desc, id desc) as place from found
  where $6 or relevance > 0
  order by place limit $7
)`;

interface RankedRow extends FactRow {
  id: string;
  relevance: number;
  vector: Buffer | null;
}

export function createRecall(pool: pg.Pool) {
  let sql: Promise<string> | null = null;
  const find = async (
    { tenant, agent, threadId }: FactReader,
    { query, most, all }: { query: string; most: number; all: boolean },
  ): Promise<{ found: string; values: unknown[] }> => {
    sql ??= chooseSql(pool).catch((error: unknown) => {
      sql = null;
      throw error;
    });
    const words = wordsIn(query);
    const values = [
      ...[tenant ?? '', agent, threadId],
      ...[words.map((word) => `'${word}'`).join(' | '), words.join(' ').slice(0, 1_000), all, most],
    ];
    return { found: await sql, values };
  };
  return {
    async recall(reader: FactReader, asked: { query: string; most: number; all: boolean }): Promise<KnownFact[]> {
      const { found, values } = await find(reader, asked);
      const { rows } = await pool.query<FactRow>(
        `${found} select scope, key, value, at from shown order by place`,
        values,
      );
      return rows;
    },
    async factsToRank(
      reader: FactReader,
      { query, model, most }: { query: string; model: string; most: number },
    ): Promise<Candidate[]> {
      const { found, values } = await find(reader, { query, most, all: true });
      const { rows } = await pool.query<RankedRow>(
        `${found} select s.id, s.scope, s.key, s.value, s.at, s.relevance::float8, f.vector
         from shown s left join pawl.facts f on f.id = s.id and f.vector_model = $8 order by place`,
        [...values, model],
      );
      return rows.map(({ id, relevance, vector, ...fact }) => {
        return { id: Number(id), fact, relevance, vector: vector === null ? null : readVector(vector) };
      });
    },
    async keepVectors(model: string, vectors: readonly { id: number; vector: Vector }[]): Promise<void> {
      await pool.query(
        `update pawl.facts f set vector = v.vector, vector_model = $1
         from unnest($2::bigint[], $3::bytea[]) as v(id, vector) where f.id = v.id`,
        [model, vectors.map(({ id }) => id), vectors.map(({ vector }) => writeVector(vector))],
      );
    },
  };
}

function writeVector(vector: Vector): Buffer {
  const bytes = Buffer.from(Float32Array.from(vector).buffer);
  return endianness() === 'LE' ? bytes : bytes.swap32();
}

function readVector(stored: Buffer): Vector {
  const bytes = Buffer.from(stored);
  if (endianness() === 'BE') bytes.swap32();
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}

/** pg_trgm may be in any schema, or not there: then words are all that facts are found by. */
async function chooseSql(pool: pg.Pool): Promise<string> {
  const { rows } = await pool.query<{ schema: string }>(
    `select quote_ident(n.nspname) as schema from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm'`,
  );
  const [found] = rows;
  if (found === undefined) return foundSql(`case when $5::text is null then 1 else 0 end`);
  return foundSql(`${found.schema}.strict_word_similarity($5, words)`);
}
