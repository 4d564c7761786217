/**
 * What this worker knows of how its tools fare. Calls that go well are counted in memory only; a call that failed is reported,
 * with how many went before it, and so the outage of a tool is found across runs and workers (core/outage.ts) without a word
 * about those that work. A report that cannot be made is not the call's fault.
 */
import { describeThrown } from '../core/errors.js';
import type { OutageRule } from '../core/outage.js';
import { isOut, type StoppedTool } from '../core/tool-stop.js';
import type { Clock, Log, Store } from '../ports.js';

/** A call about to be made. */
export interface HealthOf {
  agent: string;
  tool: { name: string; outage: OutageRule | null };
  runId: string;
}

interface Tally {
  calls: number;
  sinceMs: number;
}

export class ToolHealth {
  private readonly tallies = new Map<string, Tally>();

  constructor(private readonly parts: { store: Store; clock: Clock; log: Log }) {}

  /** Whether the call may be made: `trial` where the tool is out of order, and this call is the one that tries it. */
  async mayCall({ agent, tool }: HealthOf, stops: readonly StoppedTool[]): Promise<'yes' | 'trial' | 'no'> {
    const { outage } = tool;
    if (outage === null || !isOut(stops, agent, tool.name)) return 'yes';
    return this.orElse('no', async () => ((await this.parts.store.tryTool(agent, tool.name, outage)) ? 'trial' : 'no'));
  }

  wentWell(call: HealthOf): void {
    if (call.tool.outage !== null) this.tallyOf(call, call.tool.outage).calls += 1;
  }

  /** A trial went well. */
  async worksAgain({ agent, tool }: HealthOf): Promise<void> {
    await this.orElse(undefined, () => this.parts.store.endOutage(agent, tool.name));
    this.parts.log.info({ agent, tool: tool.name }, 'a tool works again: its calls are let through');
  }

  /** A call has failed for good, after its own attempts. */
  async failed(call: HealthOf): Promise<void> {
    const { agent, tool, runId } = call;
    const rule = tool.outage;
    if (rule === null) return;
    const tally = this.tallyOf(call, rule);
    const calls = tally.calls + 1;
    tally.calls = 0;
    const isNew = await this.orElse(false, () =>
      this.parts.store.noteToolFailure({ agent, tool: tool.name, runId, calls, rule }),
    );
    if (isNew)
      this.parts.log.warn({ agent, tool: tool.name }, 'a tool is out of order: its calls fail in several runs');
  }

  /** Of calls longer ago than the window nothing is said. */
  private tallyOf({ agent, tool }: HealthOf, { windowMs }: OutageRule): Tally {
    const key = `${agent} ${tool.name}`;
    const now = this.parts.clock.monotonicMs();
    const known = this.tallies.get(key);
    if (known !== undefined && now - known.sinceMs <= windowMs) return known;
    const tally = { calls: 0, sinceMs: now };
    this.tallies.set(key, tally);
    return tally;
  }

  private async orElse<T>(fallback: T, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      this.parts.log.warn({ cause: describeThrown(error) }, 'the state of a tool could not be read or written');
      return fallback;
    }
  }
}
