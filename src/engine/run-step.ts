/**
 * The life of a step, from the delivery of its job to the job's end: claim and load, guard, perform, decide and record,
 * dispatch. Each line of runStep is one stage; a crash between any two of them is what recover.ts and maintain.ts mend.
 * Next: perform-llm.ts, perform-tool.ts, then core/record.ts for what is decided.
 */
import { describeThrown, PawlError } from '../core/errors.js';
import type { Outcome } from '../core/outcome.js';
import { type Recorded, recordOutcome } from '../core/record.js';
import { sumOf } from '../core/run.js';
import type { ClaimAnswer, Delivery, DeliveryEnd } from '../ports.js';
import type { Call } from './calls.js';
import type { Claimed } from './gaps.js';
import { performLlm } from './perform-llm.js';
import { performTool } from './perform-tool.js';
import type { Post } from './post.js';
import { refuseDelivery } from './refuse.js';

/**
 * Carries one delivery through. Never throws: whatever happens has one of the queue's endings. A fault of Pawl's own ends
 * the job, which must not spend an attempt on it; maintenance finds the step, still claimed or still pending.
 */
export async function runStep(post: Post, delivery: Delivery): Promise<DeliveryEnd> {
  try {
    return await carryStep(post, delivery);
  } catch (error) {
    const { runId, seq } = delivery;
    post.log.error({ runId, seq, cause: describeThrown(error) }, 'a step could not be carried');
    return { end: 'complete', note: 'fault', isKept: true };
  }
}

async function carryStep(post: Post, delivery: Delivery): Promise<DeliveryEnd> {
  await post.reached('before_claim', delivery);
  const token = post.ids.claimToken();
  const call = post.openCall(token);
  try {
    const claim = await claimAndLoad(post, delivery, token);
    if (claim === 'stopping') return { end: 'hand_back' };
    if (!claim.claimed) return await refuseDelivery(post, delivery, claim.refusal);
    await post.reached('after_claim', delivery, claim);
    const outcome = await perform(post, claim, call);
    await post.reached('after_call', delivery, claim);
    const record = await decideAndRecord(post, delivery, claim, call, outcome);
    await post.reached('after_record', delivery, claim);
    await post.dispatch(record.dispatches);
    await post.reached('after_dispatch', delivery, claim);
    return endOf(record.recorded);
  } finally {
    post.closeCall(token);
  }
}

/**
 * Repeats the claim, with the same token, until the database answers it; while this worker's beats are not confirmed it
 * claims nothing. A suspect step is taken only when the process has no other, so it is asked for in a second claim.
 */
async function claimAndLoad(post: Post, delivery: Delivery, token: string): Promise<ClaimAnswer | 'stopping'> {
  const { runId, seq, dispatch } = delivery;
  const request = { runId, seq, dispatch, token, serves: post.serves };
  return post.whileReachable(async () => {
    if (!(await post.mayClaim())) return 'stopping';
    const workerId = post.claimAs(token);
    const claim = await post.store.claim({ ...request, workerId, takesSuspect: false });
    const answer =
      !claim.claimed && claim.refusal === 'suspect_slot' && post.suspects.take(token)
        ? await post.store.claim({ ...request, workerId, takesSuspect: true })
        : claim;
    if (answer.claimed) post.claimed(token);
    else if (answer.refusal === 'worker_dead') post.registerAnew(workerId);
    return answer;
  }, 'stopping' as const);
}

async function perform(post: Post, claim: Claimed, call: Call): Promise<Outcome> {
  const agent = post.agents.get(claim.run.agent);
  if (agent === undefined)
    throw new PawlError('internal', `claimed a step of ${claim.run.agent}, which is not served here`);
  const { run, step } = claim;
  const log = () => post.log.child({ runId: run.id, seq: step.seq, attempt: step.attempt });
  const recall = (asked: { query: string; most: number; all: boolean }) =>
    post.embeddings === null ? post.store.recall(run, asked) : post.embeddings.recall(call, run, asked);
  call.begin(claim.step);
  return claim.step.kind === 'llm'
    ? performLlm({
        agent,
        claim,
        call,
        llm: post.llm,
        // The reply is in hand by then: it is not thrown away because the database is away for a moment.
        unsettledOnce: (hashes) =>
          post.whileReachable(() => post.store.unsettledOnce(claim.run.id, hashes), new Map<string, number>()),
        earlierInThread: () =>
          post.whileReachable(async () => ({ earlier: await post.store.earlierInThread(claim.run.id) }), null),
        recall: (query, most) => post.whileReachable(() => recall({ query, most, all: true }), null),
        embeddings: post.embeddings,
        toolResults: (maxChars) => post.whileReachable(() => post.store.toolResults(claim.run.id, maxChars), null),
        openingMessages: () => post.whileReachable(() => post.store.openingMessages(run.id), null),
        ids: post.ids,
        log,
      })
    : performTool({
        agent,
        claim,
        call,
        llm: post.llm,
        readOutput: (page) => post.whileReachable(() => post.store.readOutput(run.id, page), 'stopping' as const),
        results: post.store,
        recall: (query, most) => recall({ query, most, all: false }),
        health: post.toolHealth,
        ids: post.ids,
        log,
      });
}

/** Repeats the record with its token until it is answered; an outcome that the database refuses is recorded as that. */
async function decideAndRecord(post: Post, delivery: Delivery, claim: Claimed, call: Call, outcome: Outcome) {
  const { run, step } = claim;
  const { token } = call;
  const lettingGo = { value: { recorded: false } as Recorded, dispatches: [] };
  const changed = await post.whileReachable(async () => {
    const words = post.agents.get(run.agent)?.words;
    const request = {
      ...{ seq: step.seq, token, attemptsMade: delivery.attemptsMade, claimed: step, spent: call.spent },
      ...(words === undefined ? {} : { words }),
    };
    const record = (what: Outcome) =>
      post.store.change(run.id, { seqs: [step.seq] }, (draft) => recordOutcome(draft, { ...request, outcome: what }), {
        receipt: token,
        known: { run, step, now: post.databaseTime(call, claim) },
      });
    try {
      return await record(outcome);
    } catch (error) {
      if (!(error instanceof PawlError) || error.code !== 'invalid_input') throw error;
      post.log.error({ runId: run.id, seq: step.seq, cause: error.message }, 'the outcome cannot be stored');
      return await record({ kind: 'unstorable', message: error.message });
    }
  }, lettingGo);
  const { value: recorded, dispatches } = changed ?? lettingGo;
  if (!recorded.recorded) await noteLate(post, call, outcome);
  return { recorded, dispatches };
}

/** The claim was taken away while the call was under way: what it returned goes to its attempt and nowhere else. */
async function noteLate(post: Post, { token, spent }: Call, outcome: Outcome): Promise<void> {
  const note = outcome.kind === 'aborted' ? `aborted (${outcome.cause})` : `returned late: ${outcome.kind}`;
  const usage =
    outcome.kind === 'llm_failure'
      ? outcome.failure.usage
      : 'usage' in outcome && outcome.kind !== 'aborted'
        ? outcome.usage
        : null;
  await post.store.noteLate(token, note, sumOf(usage, spent)).catch(() => {});
}

function endOf(recorded: Recorded): DeliveryEnd {
  if (!recorded.recorded) return { end: 'complete', note: 'fenced', isKept: true };
  switch (recorded.ended) {
    case 'retry':
      return { end: 'retry', delayMs: recorded.inMs, note: recorded.message };
    case 'dead':
      return { end: 'fail', note: recorded.message };
    case 'completed':
    case 'suspended':
    case 'again':
    case 'cancelled':
      return { end: 'complete', note: recorded.ended };
  }
}
