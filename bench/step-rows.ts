/** The table of step rows for the peers that are queues and record nothing themselves: one row a step, by run and number. */
import pg from 'pg';

export interface StepRows {
  pool: pg.Pool;
  insert(run: string, step: number, output: string): Promise<void>;
  outputs(run: string): Promise<string[]>;
  recorded(): Promise<number>;
}

export async function openStepRows(databaseUrl: string, connections: number): Promise<StepRows> {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: connections });
  await pool.query(
    'create table steps (run text, step int, output text not null, at timestamptz not null default now(), primary key (run, step))',
  );
  const insert = 'insert into steps (run, step, output) values ($1, $2, $3)';
  return {
    pool,
    async insert(run, step, output) {
      await pool.query({ name: 'insert-step', text: insert, values: [run, step, output] });
    },
    async outputs(run) {
      const { rows } = await pool.query<{ output: string }>('select output from steps where run = $1 order by step', [
        run,
      ]);
      return rows.map((row) => row.output);
    },
    async recorded() {
      const { rows } = await pool.query<{ n: number }>('select count(*)::int as n from steps');
      return rows[0]?.n ?? 0;
    },
  };
}
