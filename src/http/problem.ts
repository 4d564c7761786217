/** Errors over HTTP: RFC 9457 problem+json, with the stable codes of core/errors.ts and a status for each. */
import { type ErrorCode, PawlError } from '../core/errors.js';

const statuses: Record<ErrorCode, number> = {
  usage: 400,
  config_invalid: 500,
  not_built: 501,
  unknown_agent: 404,
  invalid_input: 422,
  not_found: 404,
  conflict: 409,
  key_conflict: 422,
  database_unreachable: 503,
  queue_unreachable: 503,
  schema_mismatch: 503,
  internal: 500,
};

const titles: Record<number, string> = {
  400: 'Bad request',
  401: 'Not authorised',
  403: 'Forbidden',
  404: 'Not found',
  405: 'Method not allowed',
  409: 'Conflict',
  422: 'Unprocessable content',
  500: 'Internal error',
  501: 'Not built',
  503: 'Service unavailable',
};

export interface Problem {
  status: number;
  code: ErrorCode | 'unauthorised' | 'forbidden';
  detail: string;
}

export function problem({ status, code, detail }: Problem, headers: Record<string, string> = {}): Response {
  const body = { type: 'about:blank', title: titles[status] ?? 'Error', status, code, detail };
  return new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/problem+json', ...headers },
  });
}

/** Bugs keep their words to themselves: they may quote anything. */
export function problemOf(error: unknown): Problem {
  if (error instanceof PawlError && error.code !== 'internal') {
    return { status: statuses[error.code], code: error.code, detail: error.message };
  }
  return { status: 500, code: 'internal', detail: 'a bug in Pawl; its log says more' };
}
