/**
 * What this process knows of the runs it works on, so that the next claim need not read it again: the run row, its steps in
 * hand, its window of messages. An entry is worth what its `writes` is worth: a claim returns a state as known only when the
 * run's counter still stands there, and a record is written only then. Rows are shared with who was given them: nobody
 * changes one in place.
 */
import { isShown } from '../core/context.js';
import type { Changes } from '../core/draft.js';
import type { StoredMessage } from '../core/message.js';
import { isFinal, type RunState } from '../core/run.js';
import { isOpen, type StepState } from '../core/step.js';

export interface CachedRun {
  run: RunState;
  /** The steps that this process has claimed or planned, and that are open. */
  steps: Map<number, StepState>;
  /** Null: not read yet, since only tool steps were claimed here. */
  messages: StoredMessage[] | null;
  /** Others have added messages since: these are the beginning, up to a turn whose answers may not all be there. */
  isBehind: boolean;
  chars: number;
}

/** Before whatever a history begins with: seqs below 0 are those of the runs before it in its thread. */
export const fromTheStart = -2_147_483_648;

/** The turn from which on messages have to be read; what is before it is known. Without a turn nothing is. */
export function readFrom(known: CachedRun | undefined): number {
  const last = known?.messages?.at(-1)?.seq ?? 0;
  return last > 0 ? last : fromTheStart;
}

const keptRuns = 2_000;
/** Characters of all messages kept: some 32 MB at most. */
const keptChars = 16_000_000;

export class RunCache {
  private readonly runs = new Map<string, CachedRun>();
  private chars = 0;

  get(runId: string): CachedRun | undefined {
    return this.runs.get(runId);
  }

  /** A claim has read the run; `messages` where it read them too, else those known stay, as a beginning. */
  loaded(run: RunState, messages: StoredMessage[] | null): void {
    const known = this.runs.get(run.id);
    // What was recorded while the claim was under way is newer.
    if (known !== undefined && known.run.writes > run.writes) return;
    const isSame = known?.run.writes === run.writes;
    const steps = isSame ? known.steps : new Map<number, StepState>();
    const kept = messages === null ? (known?.messages ?? null) : [...messages];
    const isBehind = messages === null && !(isSame && !known.isBehind);
    this.forget(run.id);
    this.keep({ run, steps, messages: kept, isBehind, chars: charsOf(kept) });
  }

  claimed(runId: string, step: StepState): void {
    this.runs.get(runId)?.steps.set(step.seq, step);
  }

  /** A record was written that was made of the entry's state, or of one as new. */
  recorded({ run, planned, changed, messages }: Changes): void {
    const known = this.runs.get(run.id);
    this.forget(run.id);
    if (known === undefined || isFinal(run.status) || run.endingAs !== null) return;
    for (const step of [...planned, ...changed]) {
      if (isOpen(step.status)) known.steps.set(step.seq, step);
      else known.steps.delete(step.seq);
    }
    const isCut = run.windowFrom > known.run.windowFrom;
    known.run = { ...run, writes: run.writes + 1 };
    if (known.messages !== null) {
      if (!known.isBehind) for (const message of messages) insert(known.messages, message);
      if (isCut) known.messages = known.messages.filter(({ seq }) => isShown(seq, run));
      known.chars = isCut || known.isBehind ? charsOf(known.messages) : known.chars + charsOf(messages);
    }
    this.keep(known);
  }

  forget(runId: string): void {
    this.chars -= this.runs.get(runId)?.chars ?? 0;
    this.runs.delete(runId);
  }

  /** The newest at the end; the oldest go. */
  private keep(entry: CachedRun): void {
    this.runs.set(entry.run.id, entry);
    this.chars += entry.chars;
    for (const oldest of this.runs.keys()) {
      if (this.runs.size <= keptRuns && this.chars <= keptChars) return;
      this.forget(oldest);
    }
  }
}

/** Results come in any order; the place of each is near the end. */
function insert(messages: StoredMessage[], message: StoredMessage): void {
  let at = messages.length;
  for (; at > 0; at--) {
    const before = messages[at - 1];
    if (before === undefined || before.seq < message.seq) break;
    if (before.seq === message.seq && before.pos < message.pos) break;
  }
  messages.splice(at, 0, message);
}

function charsOf(messages: readonly StoredMessage[] | null): number {
  let chars = 0;
  for (const { message } of messages ?? []) {
    chars += 100 + (message.content?.length ?? 0);
    if (message.role !== 'assistant') continue;
    chars += message.reasoning?.length ?? 0;
    for (const call of message.toolCalls) chars += call.arguments.length;
  }
  return chars;
}
