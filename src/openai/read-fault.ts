/**
 * Reads an error answer, whatever its shape, into a Fault: OpenAI's `{error: {…}}`, a bare `{message, code}`, FastAPI's
 * `{detail}`, a string, a page, nothing. Never throws. Its message is redacted and short; classify.ts judges the Fault.
 */
import type { Fault } from './classify.js';
import { asObject, asText, type JsonObject, parseJson } from './json.js';
import { redact } from './redact.js';

/** An HTTP answer as received. `headers` are looked up in lower case. */
export interface RawAnswer {
  status: number;
  headers: { get(name: string): string | null };
  text: string;
}

/** `nowMs`: wall time in ms since 1970, against which a Retry-After date is read. */
export function readFault(answer: RawAnswer, secrets: readonly string[], nowMs: number): Fault {
  const html = isHtml(answer);
  const body = html ? undefined : parseJson(answer.text);
  const error = errorIn(body);
  const said = error === null ? null : messageIn(error);
  const message = said ?? (html ? pageTitle(answer.text) : answer.text.trim());
  const code = nameOf(error?.code);
  const type = nameOf(error?.type) ?? nameOf(error?.status);
  return {
    status: effectiveStatus(answer.status, code),
    code,
    type,
    param: asText(error?.param),
    message: redact(`${answer.status} ${message === '' ? 'without a message' : message}${hint(answer, html)}`, secrets),
    html,
    retryAfterMs: retryAfterMs(answer.headers, said ?? '', nowMs),
  };
}

/** The error object of a body that is one, or null: also asked of answers with status 200. */
export function errorIn(body: unknown): JsonObject | null {
  const outer = asObject(Array.isArray(body) ? body[0] : body);
  if (outer === null) return null;
  const text = asText(outer.error);
  if (text !== null) return { ...outer, message: text };
  const error = asObject(outer.error);
  if (error !== null && Object.keys(error).length > 0) return error;
  return outer.choices === undefined && messageIn(outer) !== null ? outer : null;
}

export function isHtml(answer: RawAnswer): boolean {
  if (/^\s*<(?:!doctype|html|head|body)\b/i.test(answer.text)) return true;
  // Some proxies call JSON a page too.
  return /\bhtml\b/i.test(answer.headers.get('content-type') ?? '') && asObject(parseJson(answer.text)) === null;
}

function messageIn(error: JsonObject): string | null {
  const inner = asObject(error.metadata);
  const own = asText(error.message) ?? asText(error.detail) ?? asText(error.msg);
  // OpenRouter says "Provider returned error" and keeps the provider's own words beside it.
  const raw = asText(inner?.raw);
  if (own !== null) return raw === null ? own : `${own}: ${raw}`;
  const nested = error.message ?? error.detail;
  return nested === undefined || nested === null ? null : JSON.stringify(nested);
}

function nameOf(value: unknown): string | null {
  return typeof value === 'number' && Number.isFinite(value) ? String(value) : asText(value);
}

/** An error inside a 200 often carries the status it should have had as its code. */
function effectiveStatus(status: number, code: string | null): number | null {
  if (status >= 300) return status;
  const named = Number(code);
  return Number.isInteger(named) && named >= 400 && named <= 599 ? named : null;
}

function pageTitle(page: string): string {
  const title = /<title[^>]*>([^<]{1,200})/i.exec(page.slice(0, 20_000))?.[1]?.trim();
  return title === undefined || title === '' ? 'a page instead of JSON' : `a page instead of JSON: ${title}`;
}

function hint({ status, headers }: RawAnswer, html: boolean): string {
  if (status >= 300 && status < 400) {
    const target = headers.get('location');
    return target === null
      ? ' (a redirect; check the base URL)'
      : ` (redirects to ${target}; set that as the base URL)`;
  }
  return html || status === 404 ? ' (check the base URL and the model)' : '';
}

/** Delay asked for, in ms: `retry-after-ms`, `retry-after` in seconds or as an HTTP date, else "try again in 1m2.5s". */
export function retryAfterMs(headers: RawAnswer['headers'], message: string, nowMs: number): number | null {
  const exact = Number.parseFloat(headers.get('retry-after-ms') ?? '');
  if (exact >= 0) return Math.ceil(exact);
  const header = headers.get('retry-after')?.trim() ?? '';
  if (/^\d+(?:\.\d+)?$/.test(header)) return Math.ceil(Number(header) * 1_000);
  const date = /[a-z]{3}/i.test(header) ? Date.parse(header) : Number.NaN;
  if (!Number.isNaN(date)) return Math.max(0, date - nowMs);
  const said = /try again in (?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(ms|s))?/i.exec(message);
  if (said === null || (said[1] === undefined && said[2] === undefined)) return null;
  const rest = Number(said[2] ?? 0) * (said[3]?.toLowerCase() === 'ms' ? 1 : 1_000);
  return Math.ceil(Number(said[1] ?? 0) * 60_000 + rest);
}
