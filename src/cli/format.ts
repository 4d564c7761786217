/**
 * Numbers as people read them: durations, ages, tokens and money. Everything here takes the value and gives text; nothing
 * reads a clock.
 */
import type { Usage } from '../core/run.js';

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** `0.3 s`, `12.4 s`, `2m05s`, `1h02m`, `3d04h`. */
export function formatMs(ms: number): string {
  if (ms < 59_950) return `${(Math.max(0, ms) / second).toFixed(1)} s`;
  const whole = Math.round(ms / second) * second;
  if (whole < hour) return `${Math.floor(whole / minute)}m${twoDigits((whole % minute) / second)}s`;
  if (whole < day) return `${Math.floor(whole / hour)}h${twoDigits(Math.floor((whole % hour) / minute))}m`;
  return `${Math.floor(whole / day)}d${twoDigits(Math.floor((whole % day) / hour))}h`;
}

/** How long ago a moment was, in one unit: `12s`, `4m`, `3h`, `5d`. */
export function formatAge(at: string, now: Date): string {
  const ms = Math.max(0, now.getTime() - Date.parse(at));
  if (ms < minute) return `${Math.floor(ms / second)}s`;
  if (ms < hour) return `${Math.floor(ms / minute)}m`;
  if (ms < 2 * day) return `${Math.floor(ms / hour)}h`;
  return `${Math.floor(ms / day)}d`;
}

/** Between two ISO times, the second one being now while it is not known. */
export function formatSpan(from: string | null, to: string | null, now: Date): string {
  if (from === null) return '';
  return formatMs((to === null ? now.getTime() : Date.parse(to)) - Date.parse(from));
}

/** A moment in the reader's own time zone, to the second: `2026-03-01 09:30:00`. */
export function formatTime(at: string): string {
  const date = new Date(at);
  const days = [date.getFullYear(), twoDigits(date.getMonth() + 1), twoDigits(date.getDate())].join('-');
  return `${days} ${[date.getHours(), date.getMinutes(), date.getSeconds()].map(twoDigits).join(':')}`;
}

function formatCount(count: number): string {
  return count.toLocaleString('en-US');
}

/** `3 steps`, `1 step`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** `1,204 in, 88 out`; empty when nothing was used. */
export function formatTokens(usage: Usage | null): string {
  if (usage === null || (usage.inputTokens === 0 && usage.outputTokens === 0)) return '';
  return `${formatCount(usage.inputTokens)} in, ${formatCount(usage.outputTokens)} out`;
}

/** `63 % cached`: the share of the prompt that the provider had cached; empty where it had nothing. */
export function formatCached(usage: Usage | null): string {
  if (usage === null || usage.cachedInputTokens <= 0 || usage.inputTokens <= 0) return '';
  const share = Math.min(1, usage.cachedInputTokens / usage.inputTokens);
  return `${Math.max(1, Math.round(share * 100))} % cached`;
}

/** `$0.0021`, `~$0.0021` when a part of it is an estimate; empty when no price is known. */
export function formatCost(usage: Usage | null): string {
  if (usage === null || usage.costUsd === null) return '';
  const { costUsd, estimated } = usage;
  const about = estimated ? '~' : '';
  if (costUsd > 0 && costUsd < 0.0001) return `${about}<$0.0001`;
  return `${about}$${costUsd.toFixed(costUsd < 1 ? 4 : 2)}`;
}

function twoDigits(value: number): string {
  return String(value).padStart(2, '0');
}
