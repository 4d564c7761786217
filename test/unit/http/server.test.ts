/** The HTTP server without services: who is let in, what is answered, and what is not there. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Hono } from 'hono';
import { describe, expect, it } from 'vitest';
import { PawlError } from '../../../src/core/errors.js';
import type { RunFilter } from '../../../src/core/view.js';
import { refuseOpenDoor } from '../../../src/http/guard.js';
import { type ServerParts, serverApp, startServer } from '../../../src/http/server.js';
import { aRun, aStep, fakeRuns } from '../cli/fake-world.js';

const key = 'a-key-of-a-test-0815';
const logged: string[] = [];
const log = {
  debug() {},
  info() {},
  warn() {},
  error: (_: object, message: string) => logged.push(message),
  child: () => log,
};
const board = new Hono().get('/', (c) => c.html('<p>the board</p>')).put('/api/queues/pause', (c) => c.json({}));

function parts(given: Partial<ServerParts> = {}): ServerParts {
  const runs = fakeRuns({
    get: async (id) => {
      if (id === 'run_1') return aRun();
      throw new PawlError('not_found', `there is no run ${JSON.stringify(id)}`);
    },
    steps: async () => [aStep()],
    messages: async () => [],
  });
  return { host: '127.0.0.1', port: 0, apiKey: null, runs, board, ready: async () => {}, log, ...given };
}

async function ask(path: string, init: RequestInit = {}, given: Partial<ServerParts> = {}) {
  const answer = await serverApp(parts(given)).request(new Request(`http://localhost:3900${path}`, init));
  const text = await answer.text();
  const isJson = /json/.test(answer.headers.get('content-type') ?? '');
  return { status: answer.status, headers: answer.headers, text, json: isJson ? (JSON.parse(text) as object) : null };
}

const basic = (password: string) => ({ authorization: `Basic ${Buffer.from(`ops:${password}`).toString('base64')}` });

describe('with a key', () => {
  const withKey = { apiKey: key };

  it('health is told to everybody, and nothing else', async () => {
    expect(await ask('/healthz', {}, withKey)).toMatchObject({ status: 200, json: { status: 'ok' } });
    for (const path of ['/readyz', '/queues', '/queues/api/queues', '/v1/runs', '/v1/runs/run_1', '/', '/nothing']) {
      const { status, headers, json } = await ask(path, {}, withKey);
      expect([path, status]).toEqual([path, 401]);
      expect(json).toMatchObject({ code: 'unauthorised', status: 401 });
      expect(headers.get('www-authenticate')).toMatch(/^Basic /);
      expect(headers.get('content-type')).toBe('application/problem+json');
    }
  });

  it('it is brought as a bearer token, or as the password of basic auth', async () => {
    for (const headers of [{ authorization: `Bearer ${key}` }, { authorization: `bearer ${key}` }, basic(key)]) {
      expect((await ask('/queues', { headers }, withKey)).text).toContain('the board');
    }
  });

  it('another, a part of it, or none is refused', async () => {
    const wrong = [`Bearer ${key}x`, `Bearer ${key.slice(1)}`, 'Bearer', key, `Digest ${key}`, 'Basic %%%', ''];
    for (const authorization of wrong) {
      expect((await ask('/queues', { headers: { authorization } }, withKey)).status).toBe(401);
    }
    expect((await ask('/queues', { headers: basic(`${key}x`) }, withKey)).status).toBe(401);
  });
});

describe('without a key', () => {
  it('this machine is let in', async () => {
    expect((await ask('/queues')).status).toBe(200);
    expect((await ask('/queues/api/queues/pause', { method: 'PUT' })).status).toBe(200);
  });

  it('a name from elsewhere that resolves to this machine is not answered', async () => {
    const answer = await serverApp(parts()).request('http://rebound.example:3900/queues');
    expect(answer.status).toBe(403);
  });

  it('a page of another site may press no button, with a key or without', async () => {
    const press = (origin: string, given: Partial<ServerParts> = {}) =>
      ask('/queues/api/queues/pause', { method: 'PUT', headers: { origin, authorization: `Bearer ${key}` } }, given);
    expect((await press('https://evil.example')).status).toBe(403);
    expect((await press('null', { apiKey: key })).status).toBe(403);
    expect((await press('http://localhost:3900')).status).toBe(200);
  });

  it.each(['0.0.0.0', '::', '10.1.2.3', 'pawl.example'])('nothing listens on %s', async (host) => {
    expect(() => refuseOpenDoor(host, null)).toThrow(/PAWL_API_KEY/);
    await expect(startServer(parts({ host }))).rejects.toMatchObject({ code: 'config_invalid' });
    expect(() => refuseOpenDoor(host, key)).not.toThrow();
  });

  it.each(['127.0.0.1', '127.1.2.3', 'localhost', '::1'])('%s may be listened on', (host) => {
    expect(() => refuseOpenDoor(host, null)).not.toThrow();
  });
});

describe('what is answered', () => {
  it('a run, its steps and its messages as JSON', async () => {
    expect((await ask('/v1/runs/run_1')).json).toMatchObject({ id: 'run_1', status: 'completed' });
    expect((await ask('/v1/runs/run_1/steps')).json).toMatchObject({ data: [{ seq: 1 }], page: { next: null } });
    expect((await ask('/v1/runs/run_1/messages')).json).toEqual({ data: [], page: { next: null } });
  });

  it('a list of runs, filtered', async () => {
    const asked: unknown[] = [];
    const list = async (filter?: Partial<RunFilter>) => {
      asked.push(filter);
      return { data: [aRun()], page: { next: 'c1' } };
    };
    const query = 'agent=a&status=failed&reason=max_steps&tag=t%3D1&tag=u%3D2&since=2026-03-01&cursor=c0&limit=5';
    const runs = fakeRuns({ list });
    expect((await ask(`/v1/runs?${query}`, {}, { runs })).json).toMatchObject({ page: { next: 'c1' } });
    expect(asked).toEqual([
      {
        ...{ agent: 'a', status: 'failed', reason: 'max_steps', cursor: 'c0', limit: 5 },
        ...{ tag: { t: '1', u: '2' }, since: new Date('2026-03-01') },
      },
    ]);
  });

  it.each(['status=gone', 'reason=x', 'tag=x', 'since=x', 'limit=0', 'limit=1001', 'stat=failed'])(
    'a bad parameter is named: %s',
    async (query) => {
      const { status, json } = await ask(`/v1/runs?${query}`);
      expect(status).toBe(422);
      expect(JSON.stringify(json)).toContain(query.split('=')[0]);
    },
  );

  it('what is not there, or not built, is a problem with its code', async () => {
    expect(await ask('/v1/runs/run_2')).toMatchObject({ status: 404, json: { code: 'not_found' } });
    for (const [method, path] of [
      ['POST', '/v1/runs'],
      ['GET', '/v1/runs/run_1/events'],
      ['POST', '/v1/runs/run_1/cancel'],
      ['GET', '/metrics'],
    ] as const) {
      const { status, headers, json } = await ask(path, { method });
      expect({ path, status }).toEqual({ path, status: 404 });
      expect(headers.get('content-type')).toBe('application/problem+json');
      expect(json).toMatchObject({ title: 'Not found', detail: expect.stringContaining(path) });
    }
  });

  it('readiness, and why there is none', async () => {
    expect((await ask('/readyz')).status).toBe(200);
    const ready = () => Promise.reject(new PawlError('database_unreachable', 'Postgres does not answer'));
    expect(await ask('/readyz', {}, { ready })).toMatchObject({ status: 503, json: { code: 'database_unreachable' } });
  });

  it('a bug is logged, and its words are not told', async () => {
    const get = () => Promise.reject(new Error('secret words'));
    const { status, text } = await ask('/v1/runs/run_1', {}, { runs: fakeRuns({ get }) });
    expect(status).toBe(500);
    expect(text).not.toContain('secret');
    expect(logged).toContain('a request failed');
  });
});

describe('the port', () => {
  it('is listened on, and free again after the close', async () => {
    const server = await startServer(parts());
    expect(await (await fetch(`${server.url}/healthz`)).json()).toMatchObject({ service: 'pawl' });
    const port = Number(new URL(server.url).port);
    await expect(startServer(parts({ port }))).rejects.toThrow(/is taken by another pawl: end it, or set PAWL_PORT/);
    await server.close();
    await (await startServer(parts({ port }))).close();
  });

  it('that another program has is named', async () => {
    const other = createServer((_, response) => response.end('hello')).listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    const { port } = other.address() as AddressInfo;
    await expect(startServer(parts({ port }))).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining(`port ${port} of 127.0.0.1 is taken by another program`),
    });
    other.close();
  });

  it('of a host that is none of this machine is refused', async () => {
    await expect(startServer(parts({ host: '192.0.2.1', apiKey: key }))).rejects.toThrow(/no address of this machine/);
  });
});
