/**
 * A TCP proxy before a service: the net between it and everybody, with what a net does. Cuts, silences and delays what
 * passes, and before Postgres loses a chosen reply. Never changes a byte.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Swallowed } from './evidence.js';
import { PgReader, type Wanted } from './pg-wire.js';

export interface NetProxy {
  /** The service's address, through here. */
  url: string;
  /** Statements that recorded something, so far. */
  records(): number;
  /** Each chunk takes this long; 0: none. */
  delay(ms: number): void;
  /** Every connection is reset. */
  reset(): number;
  /**
   * Every connection there is goes dead: nothing passes any more, in neither direction, and nobody is told. `kept`: the
   * server goes on believing in its end, as after a power cut of the client's machine; else its end is closed.
   */
  halfOpen(kept: boolean): number;
  /** Nothing passes until it is undone; then everything does that was sent. */
  freeze(frozen: boolean): void;
  /** Connections are refused and cut until it is undone. */
  refuse(refused: boolean): Promise<void>;
  /** Loses the reply to the next statement of that kind, and the connection with it, until told to stop. */
  swallow(what: Swallowed): { lost: Promise<Wanted>; stop(): void };
  close(): Promise<void>;
}

interface Link {
  client: Socket;
  server: Socket;
  dead: boolean;
}

export async function openProxy(serverUrl: string): Promise<NetProxy> {
  const target = new URL(serverUrl);
  const links = new Set<Link>();
  let delayMs = 0;
  let frozen = false;
  let records = 0;
  let waiting: { what: Swallowed; done: (wanted: Wanted) => void } | null = null;
  const thaws = new Set<() => void>();
  let listener = await listen(0);
  const { port } = listener.address() as AddressInfo;

  async function listen(at: number) {
    const made = createServer({ noDelay: true }, accept);
    made.listen(at, '127.0.0.1');
    await once(made, 'listening');
    return made;
  }

  function accept(client: Socket): void {
    const server = connect({ port: Number(target.port), host: target.hostname, noDelay: true });
    const link: Link = { client, server, dead: false };
    links.add(link);
    let caught: ((wanted: Wanted) => void) | null = null;
    const reader = new PgReader((what) => {
      if (what === 'record') records += 1;
      if (waiting?.what !== what) return false;
      caught = waiting.done;
      waiting = null;
      return true;
    });
    const isPostgres = target.protocol.startsWith('postgres');
    pass(link, client, server, (chunk) => {
      if (isPostgres) reader.fromClient(chunk);
      return [chunk];
    });
    pass(link, server, client, (chunk) => {
      if (!isPostgres) return [chunk];
      const read = reader.fromServer(chunk);
      if ('pass' in read) return read.pass;
      caught?.(read.swallow);
      cut(link);
      return [];
    });
    for (const [socket, other] of [[client, server] as const, [server, client] as const]) {
      socket.on('error', () => {}); // its close says the same
      socket.on('close', () => {
        if (link.dead) return;
        links.delete(link);
        other.destroy();
      });
    }
  }

  /** Passes chunks on in their order, each when its delay is over and the net is not frozen. */
  function pass(link: Link, from: Socket, to: Socket, read: (chunk: Buffer) => Buffer[]): void {
    const queue: { chunk: Buffer; at: number }[] = [];
    let timer: NodeJS.Timeout | null = null;
    function flush(): void {
      timer = null;
      while (queue.length > 0 && !frozen) {
        const next = queue[0];
        const early = (next?.at ?? 0) - performance.now();
        if (early > 0) {
          timer = setTimeout(flush, early);
          return;
        }
        queue.shift();
        if (next !== undefined && !to.destroyed) to.write(next.chunk);
      }
      if (queue.length > 0) thaws.add(flush);
    }
    from.on('data', (chunk: Buffer) => {
      if (link.dead) return;
      for (const part of read(chunk)) {
        if (delayMs === 0 && !frozen && queue.length === 0) to.write(part);
        else queue.push({ chunk: part, at: performance.now() + delayMs });
      }
      if (queue.length > 0 && timer === null) flush();
    });
  }

  function cut(link: Link): void {
    links.delete(link);
    link.client.resetAndDestroy();
    link.server.destroy();
  }

  return {
    url: withPort(serverUrl, port),
    records: () => records,
    delay(ms) {
      delayMs = ms;
    },
    reset() {
      const { size } = links;
      for (const link of links) cut(link);
      return size;
    },
    halfOpen(kept) {
      const alive = [...links].filter((link) => !link.dead);
      for (const link of alive) {
        link.dead = true;
        if (!kept) link.server.destroy();
      }
      return alive.length;
    },
    freeze(now) {
      frozen = now;
      if (frozen) return;
      const all = [...thaws];
      thaws.clear();
      for (const thaw of all) thaw();
    },
    async refuse(refused) {
      if (!refused) {
        if (!listener.listening) listener = await listen(port);
        return;
      }
      if (listener.listening) listener.close();
      for (const link of links) cut(link);
    },
    swallow(what) {
      let stop = () => {};
      const lost = new Promise<Wanted>((resolve) => {
        const mine = { what, done: resolve };
        waiting = mine;
        stop = () => {
          if (waiting === mine) waiting = null;
        };
      });
      return { lost, stop: () => stop() };
    },
    async close() {
      if (listener.listening) listener.close();
      for (const link of links) cut(link);
    },
  };
}

function withPort(url: string, port: number): string {
  const changed = new URL(url);
  changed.hostname = '127.0.0.1';
  changed.port = String(port);
  return changed.href;
}
