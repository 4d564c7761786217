/**
 * Has a final answer judged: one LLM call without tools, in the place of a turn, on the window as it is with the question at
 * its end. A failure that may pass is tried again; whatever else is no judgement lets the answer stand, and so does a limit,
 * before anything is sent. The rules are core/reflect.ts and core/limits.ts.
 */
import { chooseWindow } from '../core/context.js';
import { roomForReflection } from '../core/limits.js';
import type { Mode } from '../core/mode.js';
import type { Outcome } from '../core/outcome.js';
import { type Judgement, readJudgement } from '../core/reflect.js';
import type { Reserve, Usage } from '../core/run.js';
import { type Asking, askModel, countTask, failedCall, modelOf, reserveOf, windowRule } from './ask-model.js';

type Reflecting = Extract<Mode, { is: 'reflect' }>;

export async function reflect(
  performance: Asking,
  { rounds, criteria }: Reflecting,
  answer: { seq: number; content: string },
): Promise<Outcome> {
  const { agent, claim, llm } = performance;
  const { words } = agent;
  const judged = { seq: answer.seq, output: answer.content, isJson: agent.outputSchema !== null };
  const said = { kind: 'reflection', answer: judged, rounds } as const;
  if (!roomForReflection(claim.run, claim.now, 'judgement')) {
    const verdict = { is: 'none', why: 'a limit leaves no room for it' } as const;
    return { ...said, verdict, objection: null, usage: null, reserve: null };
  }
  const model = modelOf(performance);
  const rule = await windowRule(performance, model);
  // What does not fit is left out of this request alone: the next turn may sum it up.
  const window = chooseWindow(await countTask(performance, model), claim.run, rule);
  const wanted = { mayCall: false, isAnswer: false };
  const answered = await askModel(performance, { model, window, notice: words.reflect(criteria), wanted });
  if ('aborted' in answered) return answered.aborted;
  const failure = 'failure' in answered ? answered.failure : null;
  const triesLeft = claim.step.failures + 1 < claim.step.maxAttempts;
  if (failure?.class === 'retryable' && triesLeft) {
    return failedCall(performance, failure, null, { model, window, lastBecause: null });
  }
  const verdict: Judgement =
    'reply' in answered
      ? readJudgement(answered.reply.content)
      : { is: 'none', why: `${answered.failure.code}: ${answered.failure.message}` };
  const text = verdict.is === 'objected' ? words.answerRefused(verdict.objection) : null;
  const [tokens = 0] = text === null ? [] : await llm.countTokens(model, [text]);
  const usage: Usage | null = 'reply' in answered ? answered.reply.usage : answered.failure.usage;
  const reserve: Reserve = reserveOf(performance, model, Math.max(window.tokens, usage?.inputTokens ?? 0));
  return { ...said, verdict, objection: text === null ? null : { text, tokens }, usage, reserve };
}
