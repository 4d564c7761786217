/** Uses the embedded Postgres from a process of its own: says what it got, keeps it until told to stop, then ends. */
import { startEmbedded } from '../../src/embedded/start.js';

export interface Order {
  dir: string;
  native?: string;
  /** Drop root for `nobody` first, so that what follows is done as a plain user. */
  plain?: boolean;
}

/** What is said in place of a report where there is no server. */
export interface Refusal {
  refused: string;
}

export interface Report {
  url: string;
  started: boolean;
  pid: number;
  home: string;
}

const order = JSON.parse(process.argv[2] ?? '') as Order;
if (order.plain && process.getuid?.() === 0) {
  process.setgroups?.([]);
  process.setgid?.('nogroup');
  process.setuid?.('nobody');
}
const server = await startEmbedded(order).catch((error: Error) => {
  process.send?.({ refused: error.message } satisfies Refusal);
  process.exit(1);
});
process.on('message', async () => {
  await server.stop();
  process.disconnect();
});
const { url, started, pid, home } = server;
process.send?.({ url, started, pid, home } satisfies Report);
