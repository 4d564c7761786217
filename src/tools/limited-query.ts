/**
 * One SQL statement by the extended protocol, with a row limit that the server keeps (the portal is executed for so many
 * rows and one). The extended protocol takes a single statement, so `select 1; drop table x` is the server's error,
 * not a matter of reading SQL. Values stay the text that Postgres wrote; sql-query.ts makes JSON of them.
 */
import type { Connection, Submittable } from 'pg';

export interface LimitedResult {
  fields: { name: string; dataTypeID: number }[];
  rows: (string | null)[][];
  /** The statement had more rows than the limit. */
  more: boolean;
}

type Settle = (error: unknown, result: LimitedResult) => void;

/** Handed to `client.query`, which calls `submit` and then one `handle…` method per answer of the server. */
export class LimitedQuery implements Submittable {
  readonly #result: LimitedResult = { fields: [], rows: [], more: false };
  #error: unknown = null;

  constructor(
    readonly text: string,
    readonly rowLimit: number,
    private readonly settle: Settle,
  ) {}

  submit(connection: Connection): void {
    connection.parse({ name: '', text: this.text, types: [] }, true);
    connection.bind({ portal: '', statement: '', values: [] }, true);
    connection.describe({ type: 'P', name: '' }, true);
    // One more than wanted: the server calls a portal suspended as soon as the count is reached, more rows or not.
    connection.execute({ portal: '', rows: String(this.rowLimit + 1) }, true);
    connection.sync();
  }

  handleRowDescription(message: { fields: LimitedResult['fields'] }): void {
    this.#result.fields = message.fields.map(({ name, dataTypeID }) => ({ name, dataTypeID }));
  }

  handleDataRow(message: { fields: (string | null)[] }): void {
    if (this.#result.rows.length < this.rowLimit) this.#result.rows.push(message.fields);
    else this.#result.more = true;
  }

  handleCopyInResponse(connection: Connection & { sendCopyFail(message: string): void }): void {
    connection.sendCopyFail('this connection takes no data');
  }

  handleError(error: unknown): void {
    // pg reports a lost connection through here too, and then no ReadyForQuery follows.
    this.#error ??= error;
    this.settle(this.#error, this.#result);
  }

  handleReadyForQuery(): void {
    this.settle(this.#error, this.#result);
  }

  handlePortalSuspended(): void {}
  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}
  handleCopyData(): void {}
}
