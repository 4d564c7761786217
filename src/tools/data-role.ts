/**
 * Makes the database role that sql_query connects as: it may log in, use one schema and select from its tables, and
 * nothing else. Afterwards it asks the database what the role can reach, and refuses a role that reaches more.
 */
import pg from 'pg';

export interface DataRole {
  /** The schema the role may read. Must exist. */
  schema: string;
  role: string;
  password: string;
  /** Sessions at a time. Default 16. */
  connections?: number;
}

const system = "('pg_catalog', 'information_schema')";

/** Creates or resets the role, as the owner of the schema or a superuser; returns the URL to connect by. */
export async function prepareDataRole(adminUrl: string, role: DataRole): Promise<string> {
  const client = new pg.Client({ connectionString: adminUrl, connectionTimeoutMillis: 10_000 });
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query('begin');
    await createRole(client, role);
    await grantSchema(client, role);
    const reach = await findReach(client, role);
    if (reach.length > 0) {
      throw new Error(
        `Role "${role.role}" would reach more than schema "${role.schema}": ${reach.join(', ')}. ` +
          'Revoke that from the role, or from PUBLIC, and try again.',
      );
    }
    await client.query('commit');
  } finally {
    await client.end().catch(() => {});
  }
  const url = new URL(adminUrl);
  url.username = encodeURIComponent(role.role);
  url.password = encodeURIComponent(role.password);
  return url.toString();
}

async function createRole(client: pg.Client, { role, password, connections = 16 }: DataRole): Promise<void> {
  const name = pg.escapeIdentifier(role);
  const { rows } = await client.query('select rolsuper from pg_roles where rolname = $1', [role]);
  if (rows[0]?.rolsuper) throw new Error(`Role "${role}" is a superuser; give sql_query a role of its own.`);
  const { rows: self } = await client.query(
    'select rolsuper, rolname = $1 as same from pg_roles where rolname = session_user',
    [role],
  );
  if (self[0]?.same) throw new Error(`Role "${role}" is the one preparing; give sql_query a role of its own.`);
  if (rows.length === 0) await client.query(`create role ${name}`);
  // Only a superuser may name the attributes that only superusers have.
  const beyond = self[0]?.rolsuper ? 'nosuperuser noreplication nobypassrls' : '';
  await client.query(
    `alter role ${name} login noinherit nocreatedb nocreaterole ${beyond} connection limit ${Math.trunc(connections)}
     password ${pg.escapeLiteral(password)}`,
  );
  const memberships = await client.query(
    'select g.rolname from pg_auth_members m join pg_roles g on g.oid = m.roleid join pg_roles r on r.oid = m.member where r.rolname = $1',
    [role],
  );
  for (const { rolname } of memberships.rows) await client.query(`revoke ${pg.escapeIdentifier(rolname)} from ${name}`);
  await client.query(`alter role ${name} set default_transaction_read_only = on`);
  await client.query(`alter role ${name} set statement_timeout = '60s'`);
  await client.query(`alter role ${name} set idle_in_transaction_session_timeout = '60s'`);
  if (self[0]?.rolsuper) await client.query(`alter role ${name} set temp_file_limit = '512MB'`);
}

async function grantSchema(client: pg.Client, { role, schema }: DataRole): Promise<void> {
  const name = pg.escapeIdentifier(role);
  const data = pg.escapeIdentifier(schema);
  const { rows } = await client.query(
    `select nspname from pg_namespace where nspname not in ${system} and nspname !~ '^pg_(toast|temp)'`,
  );
  for (const { nspname } of rows) {
    const other = pg.escapeIdentifier(nspname);
    await client.query(`revoke all on schema ${other} from ${name}`);
    await client.query(`revoke all on all tables in schema ${other} from ${name}`);
  }
  await client.query(`grant usage on schema ${data} to ${name}`);
  await client.query(`grant select on all tables in schema ${data} to ${name}`);
  await client.query(`alter default privileges in schema ${data} grant select on tables to ${name}`);
}

/** What the role can do beyond reading the schema: through PUBLIC, by owning it, or by a grant this role could not revoke. */
async function findReach(client: pg.Client, { role, schema }: DataRole): Promise<string[]> {
  const { rows } = await client.query(
    `with names as (
       select n.oid, n.nspname from pg_namespace n
       where n.nspname not in ${system} and n.nspname !~ '^pg_(toast|temp)')
     select 'create in schema ' || nspname as reach from names where has_schema_privilege($1, oid, 'create')
     union all
     select 'read ' || nspname || '.' || c.relname from names join pg_class c on c.relnamespace = names.oid
     where nspname <> $2 and c.relkind in ('r', 'v', 'm', 'p', 'f')
       and has_schema_privilege($1, names.oid, 'usage') and has_table_privilege($1, c.oid, 'select')
     union all
     select 'write ' || nspname || '.' || c.relname from names join pg_class c on c.relnamespace = names.oid
     where c.relkind in ('r', 'v', 'm', 'p', 'f') and has_schema_privilege($1, names.oid, 'usage')
       and has_table_privilege($1, c.oid, 'insert, update, delete, truncate')
     union all
     select 'call ' || nspname || '.' || p.proname || ' (security definer)'
     from names join pg_proc p on p.pronamespace = names.oid
     where p.prosecdef and has_schema_privilege($1, names.oid, 'usage') and has_function_privilege($1, p.oid, 'execute')
     union all
     select 'create in database ' || current_database() where has_database_privilege($1, current_database(), 'create')`,
    [role, schema],
  );
  return rows.map((row: { reach: string }) => row.reach);
}
