/**
 * What a caller may say when it starts a run, checked at the door: each fault names the field and the fix, and nothing is
 * stored. Options of the documented surface that are not built yet are refused by name.
 */
import { PawlError } from '../core/errors.js';
import type { Limits } from '../core/run.js';
import { canonicalJson, cleanText } from '../core/storable.js';
import type { NewRun } from '../core/view.js';

export interface StartRun {
  agent: string;
  /** Text, or any JSON value: the task the model gets. */
  input: unknown;
  /** Unique per tenant and agent: the same input returns the run that has it, another input is a conflict. */
  key?: string | undefined;
  tenant?: string | undefined;
  tags?: Record<string, string> | undefined;
  /** Instead of the agent's own. */
  model?: string | undefined;
  /** Not before this many milliseconds from now. */
  delayMs?: number | undefined;
  limits?: Partial<Limits> | undefined;
  /** Continues the thread of that name, or begins it: the run is shown what was said in it. One run of a thread at a time. */
  threadId?: string | undefined;
  /** Not built in this version: */
  lane?: undefined;
  priority?: undefined;
}

/** The longest task stored, in characters. */
const maxTaskChars = 1_000_000;
const maxMs = 366 * 24 * 3_600_000;

export function readStart(run: StartRun): Omit<NewRun, 'id'> {
  for (const field of ['lane', 'priority'] as const) {
    if (run[field] !== undefined)
      throw new PawlError('not_built', `${field} is not built in this version: leave it out`);
  }
  if (typeof run.agent !== 'string' || run.agent === '') refuse('agent', 'the name of an agent', run.agent);
  return {
    agent: run.agent,
    input: readInput(run.input),
    key: run.key === undefined ? null : readText('key', run.key, 255),
    tenant: run.tenant === undefined ? null : readText('tenant', run.tenant, 255),
    threadId: run.threadId === undefined ? null : readText('threadId', run.threadId, 255),
    tags: readTags(run.tags ?? {}),
    model: run.model === undefined ? null : readText('model', run.model, 200),
    delayMs: readNumber('delayMs', run.delayMs ?? 0, 0, maxMs),
    limits: readLimits(run.limits ?? {}),
  };
}

function refuse(field: string, wanted: string, given: unknown): never {
  const shown = typeof given === 'string' ? JSON.stringify(given.slice(0, 80)) : String(given);
  throw new PawlError('invalid_input', `${field} must be ${wanted}, not ${shown}`);
}

function readInput(input: unknown): unknown {
  if (typeof input === 'string') {
    const text = cleanText(input);
    if (text.trim() === '') refuse('input', 'the task, as text or JSON that is not empty', input);
    if (text.length > maxTaskChars) refuse('input', `at most ${maxTaskChars} characters`, `${text.length} characters`);
    return text;
  }
  if (input === undefined || input === null) refuse('input', 'the task, as text or JSON', input);
  const json = canonicalJson(input);
  if (json.length > maxTaskChars)
    refuse('input', `at most ${maxTaskChars} characters of JSON`, `${json.length} characters`);
  return JSON.parse(json) as unknown;
}

function readText(field: string, value: unknown, maxChars: number): string {
  if (typeof value !== 'string' || value === '' || value.length > maxChars || value !== cleanText(value)) {
    refuse(field, `1 to ${maxChars} characters of text`, value);
  }
  return value;
}

function readTags(tags: unknown): Record<string, string> {
  if (typeof tags !== 'object' || tags === null || Array.isArray(tags)) refuse('tags', 'an object of texts', tags);
  const entries = Object.entries(tags);
  if (entries.length > 50) refuse('tags', 'at most 50 tags', `${entries.length} tags`);
  return Object.fromEntries(
    entries.map(([name, value]) => [readText('a tag name', name, 100), readText(`tags.${name}`, value, 500)]),
  );
}

function readNumber(field: string, value: unknown, min: number, max: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
    refuse(field, `a whole number from ${min} to ${max}`, value);
  }
  return value;
}

function readLimits(limits: Partial<Limits>): Partial<Limits> {
  if (typeof limits !== 'object' || limits === null || Array.isArray(limits)) refuse('limits', 'an object', limits);
  const read: Partial<Limits> = {};
  for (const [name, value] of Object.entries(limits)) {
    if (value === undefined) continue;
    switch (name) {
      case 'maxSteps':
      case 'maxTurns':
        read[name] = readNumber(`limits.${name}`, value, 1, 1_000_000);
        break;
      case 'deadlineMs':
        read.deadlineMs = value === null ? null : readNumber('limits.deadlineMs', value, 1, maxMs);
        break;
      case 'onLimit':
        if (value !== 'finish' && value !== 'fail' && value !== 'suspend')
          refuse('limits.onLimit', "'finish', 'fail' or 'suspend'", value);
        read.onLimit = value;
        break;
      case 'maxTokens':
        read.maxTokens = value === null ? null : readNumber('limits.maxTokens', value, 1, 1e12);
        break;
      case 'maxCostUsd':
        if (value !== null && (typeof value !== 'number' || !(value >= 0.000001 && value <= 1e9)))
          refuse('limits.maxCostUsd', 'an amount of USD above 0', value);
        read.maxCostUsd = value;
        break;
      default:
        refuse('limits', 'maxSteps, maxTurns, maxTokens, maxCostUsd, deadlineMs and onLimit', name);
    }
  }
  return read;
}
