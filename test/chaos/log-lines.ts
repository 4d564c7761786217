/** A log of which nothing is shown unless a case fails: its lines go to whoever keeps them. */
import type { Log } from '../../src/ports.js';

export type LogLine = { at: string; level: 'info' | 'warn' | 'error'; message: string } & Record<string, unknown>;

export function logTo(keep: (line: LogLine) => void): Log {
  const at = (level: LogLine['level']) => (fields: Record<string, unknown>, message: string) =>
    keep({ at: new Date().toISOString().slice(11, 23), level, message, ...fields });
  const log: Log = { debug() {}, info: at('info'), warn: at('warn'), error: at('error'), child: () => log };
  return log;
}
