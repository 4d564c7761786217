/**
 * Tools that are not called now: withdrawn by an operator, for one agent or for all, or out of order (outage.ts). The claim of
 * each step brings what stands at that moment, so either holds from the next step on, everywhere, without a question of its own.
 */

export interface ToolStop {
  tool: string;
  /** Null: whichever agent has the tool. */
  agent: string | null;
}

export interface StoppedTool extends ToolStop {
  /** Out of order, and not withdrawn. */
  isOut: boolean;
}

export const noStops: readonly StoppedTool[] = [];

export function isWithdrawn(stops: readonly StoppedTool[], agent: string, tool: string): boolean {
  return stops.some((stop) => !stop.isOut && isMeant(stop, agent, tool));
}

export function isOut(stops: readonly StoppedTool[], agent: string, tool: string): boolean {
  return stops.some((stop) => stop.isOut && isMeant(stop, agent, tool));
}

function isMeant(stop: ToolStop, agent: string, tool: string): boolean {
  return stop.tool === tool && (stop.agent === null || stop.agent === agent);
}
