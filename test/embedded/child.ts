/** Uses the embedded Postgres from a process of its own: says what it got, keeps it until told to stop, then ends. */
import { startEmbedded } from '../../src/embedded/start.js';

export interface Order {
  dir: string;
  native?: string;
  /** Drop root for `nobody` first, so that what follows is done as a plain user. */
  plain?: boolean;
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
const server = await startEmbedded(order);
process.on('message', async () => {
  await server.stop();
  process.disconnect();
});
const { url, started, pid, home } = server;
process.send?.({ url, started, pid, home } satisfies Report);
