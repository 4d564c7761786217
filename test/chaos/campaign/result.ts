/**
 * What a tool of a campaign answers, as text: its token, and beside it what a check of its own looks at. Known beforehand
 * but for the number of the hit, by which a result that was kept for others is told from one of its own.
 */
import { withToken } from './plan.js';
import { type ToolName, tools } from './trade.js';

export function resultOf(tool: ToolName, { token, n }: { token: string; n: number }): string {
  const said = withToken(`done: ${tool}`, token);
  const { cacheMs, shownChars } = tools[tool];
  if (cacheMs > 0) return `${said} by hit ${n}`;
  return shownChars === null ? said : lengthened(said, token, shownChars);
}

/** The hit that a result says it is of. */
export function hitIn(text: string): number | null {
  const found = /^done: \w+ \[[0-9a-f]{10}\] by hit (\d+)$/.exec(text)?.[1];
  return found === undefined ? null : Number(found);
}

/** Always longer than what is shown of it, by a little or by much; no two lines of it are alike. */
function lengthened(said: string, token: string, shownChars: number): string {
  const times = [1.2, 8, 60][Number.parseInt(token.slice(0, 2), 16) % 3] ?? 1;
  const lines = [said];
  for (let chars = said.length, n = 1; chars <= shownChars * times; n++) {
    const line = `${n}. what was found of ${token}`;
    lines.push(line);
    chars += line.length + 1;
  }
  return lines.join('\n');
}
