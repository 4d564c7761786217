/**
 * The way from this process to its server. When it goes dark all connections die at once and none is told: each would be found
 * out in its turn, one silence after another. So the first that is found out ends all that have not been heard since it was asked.
 */
import { Socket } from 'node:net';
import pg from 'pg';

/** A client that can be ended without asking its server. */
class Line extends pg.Client {
  readonly #socket: Socket;

  constructor(config: pg.ClientConfig = {}) {
    const socket = new Socket();
    super({ ...config, stream: () => socket });
    this.#socket = socket;
  }

  /** A pool lets go of it at once, and a statement under way fails. */
  cut(): void {
    this.#socket.destroy();
    this.emit('error', new Error('Connection terminated: it was silent as long as one that is dead'));
  }
}

export class Route {
  readonly #heardAt = new Map<Line, number>();

  /** A pool whose connections go this way; `silenceMs`: how long it waits for the answer to a statement. */
  createPool(config: Omit<pg.PoolConfig, 'Client' | 'query_timeout'> & { silenceMs: number }): pg.Pool {
    const { silenceMs, ...options } = config;
    const pool = new pg.Pool({ ...options, query_timeout: silenceMs, Client: Line });
    pool.on('connect', (client) => this.#heard(client));
    pool.on('release', (error, client) => {
      if (isSilence(error)) this.#end(performance.now() - silenceMs);
      else if (!error) this.#heard(client);
    });
    pool.on('remove', (client) => {
      if (client instanceof Line) this.#heardAt.delete(client);
    });
    return pool;
  }

  #heard(client: pg.ClientBase): void {
    if (client instanceof Line) this.#heardAt.set(client, performance.now());
  }

  #end(notHeardSince: number): void {
    const silent = [...this.#heardAt].filter(([, at]) => at < notHeardSince);
    for (const [client] of silent) {
      this.#heardAt.delete(client);
      client.cut();
    }
  }
}

/** The client has waited for an answer for as long as it may. */
export function isSilence(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout';
}
