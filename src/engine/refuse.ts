/**
 * What becomes of a delivery that was refused: its job completes and names the cause, the step is put off where it could
 * run later or elsewhere, and the delivery of a dead step is an operator's Retry or fails again.
 */
import { answerDeadDelivery, deferStep, putOffSuspect } from '../core/recover.js';
import type { Delivery, DeliveryEnd, Refusal } from '../ports.js';
import type { Post } from './post.js';

export async function refuseDelivery(post: Post, delivery: Delivery, refusal: Refusal): Promise<DeliveryEnd> {
  const { runId, seq, dispatch } = delivery;
  post.log.debug({ runId, seq, dispatch, refusal }, 'delivery refused');
  switch (refusal) {
    case 'dead':
      return answerDead(post, delivery);
    case 'not_served':
      await defer(post, delivery);
      break;
    case 'suspect_slot':
      await post.whileReachable(
        () => post.store.change(runId, { seqs: [seq] }, (draft) => putOffSuspect(draft, seq, dispatch)),
        null,
      );
      post.suspects.await(delivery);
      break;
    default:
  }
  return { end: 'complete', note: refusal, isKept: true };
}

async function answerDead(post: Post, delivery: Delivery): Promise<DeliveryEnd> {
  const { runId } = delivery;
  const answered = await post.whileReachable(
    () => post.store.change(runId, 'revivable', (draft) => answerDeadDelivery(draft, delivery)),
    null,
  );
  if (answered === null) return { end: 'hand_back' };
  await post.dispatch(answered.dispatches);
  const { redriven, note } = answered.value;
  return redriven ? { end: 'complete', note, isKept: true } : { end: 'fail', note };
}

async function defer(post: Post, delivery: Delivery): Promise<void> {
  const { runId, seq, dispatch } = delivery;
  await post.whileReachable(async () => {
    const asked = await post.store.change(runId, { seqs: [] }, ({ run }) => ({
      agent: run.agent,
      version: run.agentVersion,
    }));
    if (asked === null) return;
    const isServed = await post.watch.isServed(asked.value.agent, asked.value.version);
    await post.store.change(runId, { seqs: [seq] }, (draft) => deferStep(draft, seq, dispatch, isServed));
  }, undefined);
}
