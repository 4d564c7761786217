/** All peers by the names `--only` takes. A peer is loaded when it is measured, so a broken package breaks only itself. */
import type { Peer } from '../peer.js';

const loads: Record<string, () => Promise<Peer>> = {
  pawl: async () => (await import('./pawl.js')).pawl,
  bullmq: async () => (await import('./bullmq.js')).bullmq,
  'pawl-postgres': async () => (await import('./pawl.js')).pawlPostgres,
  'bullmq-postgres': async () => (await import('./bullmq-postgres.js')).bullmqPostgres,
  restate: async () => (await import('./restate.js')).restateServer,
  dbos: async () => (await import('./dbos.js')).dbos,
  'pg-boss': async () => (await import('./pg-boss.js')).pgBoss,
  'graphile-worker': async () => (await import('./graphile-worker.js')).graphileWorker,
  langgraph: async () => (await import('./langgraph.js')).langgraph,
};

export const peerNames = Object.keys(loads);

export async function loadPeer(name: string): Promise<Peer> {
  const load = loads[name];
  if (load === undefined)
    throw new Error(`there is no peer ${JSON.stringify(name)}; the peers are ${peerNames.join(', ')}`);
  return load();
}
