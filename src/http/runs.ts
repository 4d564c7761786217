/** Runs over HTTP, to be read: `/v1/runs`, `/v1/runs/:id`, its steps and messages. */
import { Hono } from 'hono';
import { PawlError } from '../core/errors.js';
import { reasons, runStatuses } from '../core/run.js';
import type { RunFilter } from '../core/view.js';
import type { Runs } from '../engine/runs.js';

export type ReadRuns = Pick<Runs, 'get' | 'list' | 'steps' | 'messages'>;

export function runsApp(runs: ReadRuns): Hono {
  const app = new Hono();
  app.get('/', async (c) => c.json(await runs.list(readFilter(new URL(c.req.url).searchParams))));
  app.get('/:id', async (c) => c.json(await runs.get(c.req.param('id'))));
  app.get('/:id/steps', async (c) => c.json(all(await runs.steps(c.req.param('id')))));
  app.get('/:id/messages', async (c) => c.json(all(await runs.messages(c.req.param('id')))));
  return app;
}

function all<T>(data: T[]): { data: T[]; page: { next: null } } {
  return { data, page: { next: null } };
}

const names = ['agent', 'status', 'reason', 'tag', 'since', 'cursor', 'limit'];

function readFilter(query: URLSearchParams): Partial<RunFilter> {
  const filter: Partial<RunFilter> = {};
  for (const [name, value] of query) {
    switch (name) {
      case 'agent':
      case 'cursor':
        filter[name] = value;
        break;
      case 'status':
        filter.status = oneOf(name, value, runStatuses);
        break;
      case 'reason':
        filter.reason = oneOf(name, value, reasons);
        break;
      case 'tag': {
        const [, tag, wanted] = /^([^=]+)=(.+)$/s.exec(value) ?? refuse(name, 'name=value', value);
        filter.tag = { ...filter.tag, [tag ?? '']: wanted ?? '' };
        break;
      }
      case 'since':
        filter.since = new Date(value);
        if (Number.isNaN(filter.since.getTime())) refuse(name, 'a time such as 2026-03-01T09:00:00Z', value);
        break;
      case 'limit':
        filter.limit = Number(value);
        if (!/^\d{1,4}$/.test(value) || filter.limit < 1 || filter.limit > 1_000) refuse(name, 'from 1 to 1000', value);
        break;
      default:
        throw new PawlError('invalid_input', `there is no parameter ${name}; there are ${names.join(', ')}`);
    }
  }
  return filter;
}

function oneOf<const T extends string>(name: string, value: string, values: readonly T[]): T {
  return values.find((known) => known === value) ?? refuse(name, `one of ${values.join(', ')}`, value);
}

function refuse(name: string, wanted: string, given: string): never {
  throw new PawlError('invalid_input', `${name} must be ${wanted}, not ${JSON.stringify(given.slice(0, 80))}`);
}
