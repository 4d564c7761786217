/**
 * The effect ledger: every call that reaches the world outside, on disk before anybody hears of it. One endpoint dedupes by
 * the idempotency key, the other cannot; both count every hit. What a call's tool is answered, and when, its plan says.
 */
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import type { EffectAnswer, EffectOrder, Fate } from './crew.js';
import type { Hit } from './evidence.js';
import { findCall } from './plan.js';
import { tools } from './trade.js';

export interface Ledger {
  /** `wait`: how long the answer takes from now. */
  hit(order: EffectOrder, dedupes: boolean): { answer: EffectAnswer; waitMs: number; late: boolean };
  fate(runId: string, seq: number): Fate;
  close(): void;
}

export function openLedger(file: string, seed: number, now: () => number): Ledger {
  const fd = openSync(file, 'a');
  const hits = new Map<string, Hit[]>();
  const appliedKeys = new Set<string>();
  let n = 0;

  function keep(hit: Hit, of: string): void {
    writeSync(fd, `${JSON.stringify(hit)}\n`);
    fdatasyncSync(fd);
    hits.set(of, [...(hits.get(of) ?? []), hit]);
  }

  return {
    hit({ ref, tool, runId, seq, attempt, key }, dedupes) {
      const call = findCall(seed, ref);
      if (call === null || call.tool !== tool) throw new Error(`no plan asks for ${tool} ${ref}`);
      const of = `${runId}.${seq}`;
      const before = hits.get(of)?.length ?? 0;
      const answer: Hit['answer'] = call.refusedForGood ? 'refused' : (call.answers[before] ?? 'ok');
      const takesEffect = answer !== 'refused' && call.effect !== 'none';
      const deduped = takesEffect && dedupes && appliedKeys.has(key);
      const applied = takesEffect && !deduped;
      if (applied) appliedKeys.add(key);
      n += 1;
      const { effect, token } = call;
      const plan = tools[tool].cacheMs > 0 ? null : Number(ref.split('.')[0]);
      keep({ n, at: now(), plan, tool, effect, runId, seq, attempt, key, token, applied, deduped, answer }, of);
      const ok = answer === 'ok' || answer === 'late';
      return {
        answer: ok ? { ok, n, token } : { ok, n, message: answer, token },
        waitMs: call.delayMs,
        late: answer === 'late',
      };
    },
    fate(runId, seq) {
      const of = hits.get(`${runId}.${seq}`) ?? [];
      return { happened: of.some((hit) => hit.applied), token: of[0]?.token ?? '' };
    },
    close: () => closeSync(fd),
  };
}
