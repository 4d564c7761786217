/**
 * A worker process: registers, fetches jobs, runs their steps, and stops in good order. States: working → stopping (claims
 * nothing; calls in flight go on) → handing back (calls are aborted and recorded as not done) → stopped. Whatever it is cut
 * off from, it is gone when the time given is over; what it left is found by maintenance.
 */
import { hostname } from 'node:os';
import type { Agent } from '../core/agent.js';
import type { AgentListing } from '../core/view.js';
import type { Consumer, Delivery, DeliveryEnd, Heart, Workers } from '../ports.js';
import { Post, type PostParts } from './post.js';
import { runStep } from './run-step.js';

export interface WorkerParts extends PostParts {
  workers: Workers;
  consumer(options: { handler: (delivery: Delivery) => Promise<DeliveryEnd> }): Consumer;
}

export interface RunningWorker {
  id(): string;
  /** Resolves when the worker has stopped, at the latest after the time given. */
  stop(withinMs: number): Promise<void>;
}

/** Of the time for a shutdown, what is kept for recording what was aborted and for saying goodbye. */
function closingTime(withinMs: number): number {
  return Math.min(2_000, withinMs * 0.3);
}

export async function startWorker(parts: WorkerParts, role: 'all' | 'steps'): Promise<RunningWorker> {
  const post = new Post(parts);
  const agents = [...parts.agents.values()];
  let heart = await register(parts, post, agents, role, () => registerAnew());
  const consumer = parts.consumer({ handler: (delivery) => runStep(post, delivery) });
  post.takeConsumer(consumer);
  await consumer.start();

  let stopping = false;
  let registering: Promise<void> | null = null;
  function registerAnew(): void {
    // What it holds is lost, and it will claim nothing more.
    if (stopping) return;
    registering ??= takeNewHeart().finally(() => {
      registering = null;
    });
  }
  async function takeNewHeart(): Promise<void> {
    parts.log.warn({ workerId: post.workerId() }, 'declared dead: what was in hand is lost; registering anew');
    const old = heart;
    await post.whileReachable(async () => {
      const fresh = await register(parts, post, agents, role, registerAnew);
      // The worker may have let go meanwhile, and then nobody else would end it.
      if (stopping) await fresh.stop(0);
      else heart = fresh;
    }, undefined);
    await old.stop(0);
  }

  return {
    id: () => post.workerId(),
    async stop(withinMs) {
      const closingMs = closingTime(withinMs);
      stopping = true;
      post.beginStop();
      const handBack = setTimeout(() => post.abortCalls(), withinMs - closingMs);
      const letGo = setTimeout(() => post.letGo(), withinMs - closingMs / 2);
      await consumer.stop(withinMs);
      clearTimeout(handBack);
      clearTimeout(letGo);
      post.letGo();
      await registering;
      await heart.stop(Math.min(1_000, withinMs));
    },
  };
}

async function register(
  parts: WorkerParts,
  post: Post,
  agents: Agent[],
  role: 'all' | 'steps',
  onDead: () => void,
): Promise<Heart> {
  const id = parts.ids.workerId();
  const listings = agents.map((agent) => priced(parts, agent));
  const heart = await parts.workers.register({ id, host: hostname(), pid: process.pid, role, agents: listings });
  post.takeHeart(id, heart, onDead);
  return heart;
}

function priced({ llm, log }: WorkerParts, agent: Agent): AgentListing {
  const listing = agent.toListing();
  const price = llm.price(listing.model);
  if (price === null && listing.limits.maxCostUsd !== null) {
    log.warn(
      { agent: agent.name, model: listing.model },
      'no price is known for the model: maxCostUsd is not kept; give models[…].priceUsdPerMTok, or use maxTokens',
    );
  }
  return { ...listing, price };
}
