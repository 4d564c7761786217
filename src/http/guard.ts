/**
 * Who may come in. With a key: whoever brings it, as a bearer token or as the password of basic auth, for any user. Without
 * one the server listens on loopback alone, and then only to this machine's own pages: a page from elsewhere in the same
 * browser can reach loopback, too, by a form or by a name that resolves to it.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { PawlError } from '../core/errors.js';
import { problem } from './problem.js';

export function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/i.test(host);
}

/** Refuses, before anything listens, to be reached from elsewhere without a key. */
export function refuseOpenDoor(host: string, apiKey: string | null): void {
  if (apiKey !== null || isLoopback(host)) return;
  throw new PawlError(
    'config_invalid',
    `PAWL_HOST is ${host}, which others can reach, and there is no PAWL_API_KEY: set one (openssl rand -hex 24), or leave PAWL_HOST at 127.0.0.1`,
  );
}

export type Guard = (request: Request) => Response | null;

/** Null: come in. */
export function createGuard(apiKey: string | null): Guard {
  return (request) => {
    const foreign = refuseForeignPage(request, apiKey);
    if (foreign !== null) return foreign;
    if (apiKey === null || isKey(keyIn(request.headers.get('authorization')), apiKey)) return null;
    const detail = 'bring PAWL_API_KEY as a bearer token, or as the password of basic auth';
    return problem(
      { status: 401, code: 'unauthorised', detail },
      { 'www-authenticate': 'Basic realm="Pawl", charset="UTF-8"' },
    );
  };
}

function refuseForeignPage(request: Request, apiKey: string | null): Response | null {
  const { host, hostname } = new URL(request.url);
  if (apiKey === null && !isLoopback(hostname)) {
    const detail = `without PAWL_API_KEY only requests to localhost are answered, not to ${hostname}`;
    return problem({ status: 403, code: 'forbidden', detail });
  }
  const origin = request.headers.get('origin');
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  if (isRead || origin === null || (URL.canParse(origin) && new URL(origin).host === host)) return null;
  return problem({ status: 403, code: 'forbidden', detail: 'the request comes from a page of another site' });
}

/** The token of `Bearer TOKEN`, or the password of `Basic …`. */
function keyIn(authorization: string | null): string {
  const [, scheme = '', value = ''] = /^(\w+)\s+(\S+)\s*$/.exec(authorization ?? '') ?? [];
  if (/^bearer$/i.test(scheme)) return value;
  if (!/^basic$/i.test(scheme)) return '';
  return /^[^:]*:(.*)$/s.exec(Buffer.from(value, 'base64').toString('utf8'))?.[1] ?? '';
}

/** Hashes are of one length, and take one time to compare. */
function isKey(given: string, key: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(given), hash(key));
}
