/**
 * Tools that an operator has withdrawn, for one agent or for all. The claim of each step brings what stands at that moment,
 * so a withdrawal holds from the next step on, everywhere, without a question of its own.
 */

export interface ToolStop {
  tool: string;
  /** Null: whichever agent has the tool. */
  agent: string | null;
}

export const noStops: readonly ToolStop[] = [];

export function isWithdrawn(stops: readonly ToolStop[], agent: string, tool: string): boolean {
  return stops.some((stop) => stop.tool === tool && (stop.agent === null || stop.agent === agent));
}
