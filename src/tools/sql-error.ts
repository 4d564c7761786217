/**
 * What the database said, put so that a model can correct its query: message, detail, hint, the place, and what this tool
 * allows where that is the point. Never holds the connection's URL or password.
 */

/** A query that the database or its limits refused. */
export class SqlQueryError extends Error {
  override readonly name = 'SqlQueryError';
}

const advice = new Map<string, (limits: { schema: string; timeoutMs: number }) => string>([
  ['25006', () => 'This connection can only read.'],
  ['42501', ({ schema }) => `Only schema "${schema}" can be read, and nothing can be changed.`],
  ['57014', ({ timeoutMs }) => `Queries may take ${timeoutMs / 1000} s. Aggregate, or narrow the query.`],
]);

interface ServerError {
  code?: string;
  message: string;
  detail?: string;
  hint?: string;
  position?: string;
  severity?: string;
}

/** Turns what pg threw into an error for the model; a fault of the connection stays what it is. */
export function describeSqlError(error: unknown, limits: { schema: string; timeoutMs: number }): unknown {
  if (!(error instanceof Error) || !('severity' in error)) return error;
  const said = error as ServerError;
  const parts = [said.message];
  if (said.position) parts.push(`at character ${said.position}`);
  if (said.detail) parts.push(said.detail);
  if (said.hint) parts.push(`Hint: ${said.hint}`);
  if (said.message.includes('multiple commands')) parts.push('Send one statement per call.');
  const more = advice.get(said.code ?? '')?.(limits);
  if (more) parts.push(more);
  return new SqlQueryError(`${parts.join('. ')} (SQLSTATE ${said.code})`, { cause: error });
}
