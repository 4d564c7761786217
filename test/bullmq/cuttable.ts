/**
 * A TCP proxy before a real server, to take the server away from one client only: `cut` refuses and drops connections as a
 * stopped server does, `freeze` keeps them open and answers nothing, `restore` undoes both; `strand` leaves the connections that
 * there are without an answer for ever, as a router that forgot them does, and lets new ones through.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface Cuttable {
  /** The server's address, through the proxy. */
  url: string;
  cut(): Promise<void>;
  freeze(): void;
  strand(): void;
  restore(): Promise<void>;
  /** How often something came from a client. */
  reads(): number;
  close(): Promise<void>;
}

export async function cuttable(serverUrl: string, defaultPort: number): Promise<Cuttable> {
  const target = new URL(serverUrl);
  const pairs = new Set<[Socket, Socket]>();
  const stranded = new Set<Socket>();
  let frozen = false;
  let reads = 0;
  let server = await listen(0);
  const { port } = server.address() as AddressInfo;

  async function listen(at: number) {
    const made = createServer((client) => {
      const upstream = connect(Number(target.port || defaultPort), target.hostname);
      const pair: [Socket, Socket] = [client, upstream];
      pairs.add(pair);
      client.on('data', () => {
        reads += 1;
      });
      for (const [from, to] of [pair, [upstream, client] as const]) {
        from.on('data', (chunk) => frozen || stranded.has(from) || to.write(chunk));
        from.on('error', () => {});
        from.on('close', () => {
          pairs.delete(pair);
          to.destroy();
        });
      }
    });
    made.listen(at, '127.0.0.1');
    await once(made, 'listening');
    return made;
  }

  async function cut() {
    const closed = server.listening ? new Promise((resolve) => server.close(resolve)) : undefined;
    for (const sockets of pairs) for (const socket of sockets) socket.destroy();
    await closed;
  }

  const url = new URL(serverUrl);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  return {
    url: url.href,
    cut,
    freeze() {
      frozen = true;
    },
    strand() {
      for (const sockets of pairs) for (const socket of sockets) stranded.add(socket);
    },
    async restore() {
      frozen = false;
      if (!server.listening) server = await listen(port);
    },
    reads: () => reads,
    close: cut,
  };
}
