/** Restate: its server, from npm, journals each `ctx.run` of a service handler that lives in this process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import * as restate from '@restatedev/restate-sdk';
import * as clients from '@restatedev/restate-sdk-clients';
import { freePort } from '../free-port.js';
import { inLanes, type Peer } from '../peer.js';

// Its SDK needs what came with Node 22; its other needs Node 20 meets.
Promise.withResolvers ??= function withResolvers<T>(this: PromiseConstructor) {
  let resolve: PromiseWithResolvers<T>['resolve'] = () => {};
  let reject: PromiseWithResolvers<T>['reject'] = () => {};
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
};

interface Asked {
  run: string;
  steps: number;
}

export const restateServer: Peer = {
  title: 'Restate',
  packages: ['@restatedev/restate-sdk', '@restatedev/restate-server'],
  how: 'a service handler of ctx.run steps; the server as it comes, on a disk of its own',
  async open({ concurrency, work }) {
    /** What the journal gave back for each step. */
    const journaled = new Map<string, string[]>();
    const agent = restate.service({
      name: 'agent',
      handlers: {
        async play(ctx: restate.Context, { run, steps }: Asked): Promise<string> {
          const outputs: string[] = [];
          for (let step = 1; step <= steps; step++) outputs.push(await ctx.run('step', () => work.perform(run, step)));
          journaled.set(run, outputs);
          return outputs.at(-1) ?? '';
        },
      },
    });
    const server = await startServer();
    const port = await freePort();
    await restate.endpoint().bind(agent).setLogger(sayErrors).listen(port);
    await register(server.adminUrl, `http://127.0.0.1:${port}`);
    const client = clients.connect({ url: server.ingressUrl }).serviceClient(agent);
    return {
      async play(runs, steps) {
        await inLanes(runs, concurrency, (run) => client.play({ run, steps }));
      },
      outputs: async (run) => journaled.get(run) ?? [],
      recorded: async () => [...journaled.values()].reduce((sum, outputs) => sum + outputs.length, 0),
      stored: () => bytesOf(server.folder),
      close: server.stop,
    };
  },
};

const sayErrors: restate.LoggerTransport = ({ level }, ...words) => {
  if (level === 'error') console.error(...words);
};

async function startServer() {
  const folder = await mkdtemp(join(tmpdir(), 'bench-restate-'));
  const [ingress, admin, node] = [await freePort(), await freePort(), await freePort()];
  // The package's own command starts this binary as a child of its own, which would outlive a kill of the command.
  const require = createRequire(createRequire(import.meta.url).resolve('@restatedev/restate-server/package.json'));
  const binary = require.resolve(`@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`);
  const child = spawn(binary, ['--base-dir', folder], {
    stdio: ['ignore', 'ignore', 'ignore'],
    env: {
      ...process.env,
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
      RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}`,
      DO_NOT_TRACK: '1',
    },
  });
  const gone = once(child, 'exit');
  const end = () => child.kill('SIGKILL');
  process.on('exit', end);
  const adminUrl = `http://127.0.0.1:${admin}`;
  const deadline = Date.now() + 30_000;
  while (
    !(await fetch(`${adminUrl}/health`).then(
      (reply) => reply.ok,
      () => false,
    ))
  ) {
    if (child.exitCode !== null || Date.now() > deadline) throw new Error('restate-server does not answer');
    await delay(50);
  }
  return {
    folder,
    adminUrl,
    ingressUrl: `http://127.0.0.1:${ingress}`,
    async stop() {
      child.kill('SIGTERM');
      const late = setTimeout(end, 3_000);
      await gone;
      clearTimeout(late);
      process.off('exit', end);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function register(adminUrl: string, uri: string): Promise<void> {
  const deadline = Date.now() + 20_000;
  for (;;) {
    const reply = await fetch(`${adminUrl}/deployments`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ uri }),
    });
    if (reply.ok) return;
    if (Date.now() > deadline) throw new Error(`restate refuses the deployment: ${await reply.text()}`);
    await delay(100);
  }
}

async function bytesOf(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  // On disk, since its log files are allocated ahead of what is written.
  const sizes = await Promise.all(
    files.map((file) =>
      stat(join(file.parentPath, file.name)).then(
        ({ blocks }) => blocks * 512,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
