/** Commands that go on until they are told to end, and those that look at what is registered. */
import { describe, expect, it } from 'vitest';
import { PawlError } from '../../../src/core/errors.js';
import type { AgentListing, ToolListing } from '../../../src/core/view.js';
import { makeTerminal, pawl } from './fake-world.js';

function aWorker() {
  const stops: string[] = [];
  let end = () => {};
  const stopped = new Promise<void>((resolve) => {
    end = resolve;
  });
  const stop = async (): Promise<void> => {
    stops.push('stop');
    end();
  };
  return { stops, worker: { agents: ['analyst'], queueKind: 'postgres' as const, stop, stopped } };
}

function aServer() {
  const { stops, worker } = aWorker();
  const { stop, stopped, queueKind } = worker;
  return { stops, server: { url: 'http://127.0.0.1:3900', asksForKey: false, queueKind, stop, stopped } };
}

describe('a server', () => {
  it('says where it is, and is stopped in good order', async () => {
    const { stops, server } = aServer();
    const interrupt = new AbortController();
    const startServer = async () => {
      setImmediate(() => interrupt.abort());
      return server;
    };
    const ran = await pawl(['server'], { services: { startServer }, interrupt: interrupt.signal });
    expect(ran).toMatchObject({ exit: 0, out: '', err: 'serving http://127.0.0.1:3900/queues\n' });
    expect(stops).toEqual(['stop']);
  });

  it('that may not listen there says why', async () => {
    const startServer = async (): Promise<never> => {
      throw new PawlError('config_invalid', 'PAWL_HOST is 0.0.0.0');
    };
    expect(await pawl(['server'], { services: { startServer } })).toMatchObject({ exit: 2 });
  });
});

describe('a worker', () => {
  it('is started in its role and stopped in good order, with status 0', async () => {
    const { stops, worker } = aWorker();
    const interrupt = new AbortController();
    const roles: string[] = [];
    const startWorker = async (role: string) => {
      roles.push(role);
      setImmediate(() => interrupt.abort());
      return worker;
    };
    const ran = await pawl(['worker', '--role', 'steps'], { services: { startWorker }, interrupt: interrupt.signal });
    expect(ran).toMatchObject({ exit: 0, out: '' });
    expect({ roles, stops }).toEqual({ roles: ['steps'], stops: ['stop'] });
  });

  it('that cannot start says why', async () => {
    const startWorker = async (): Promise<never> => {
      throw new PawlError('config_invalid', 'two agents are named a; rename one');
    };
    expect(await pawl(['worker'], { services: { startWorker } })).toMatchObject({
      exit: 2,
      err: 'error: two agents are named a; rename one\n',
    });
  });

  it('that ends by a fault ends the command with it', async () => {
    const stopped = Promise.reject(new PawlError('queue_unreachable', 'Redis does not answer'));
    const startWorker = async () => ({ ...aWorker().worker, stopped });
    expect((await pawl(['worker'], { services: { startWorker } })).exit).toBe(8);
  });
});

describe('dev', () => {
  it('migrates, says what it has, and closes everything at the end', async () => {
    const { stops, worker } = aWorker();
    const interrupt = new AbortController();
    const startWorker = async () => {
      setImmediate(() => interrupt.abort());
      return worker;
    };
    const { server, stops: serverStops } = aServer();
    const services = { startWorker, startServer: async () => server };
    const ran = await pawl(['dev'], { services, interrupt: interrupt.signal });
    expect(ran).toMatchObject({ exit: 0, out: '', leftOpen: 0 });
    expect(ran.err).toContain('http://127.0.0.1:3900/queues');
    expect(ran.err).toContain('pawl run analyst');
    expect({ stops, serverStops }).toEqual({ stops: ['stop'], serverStops: ['stop'] });
  });

  it('goes on without a dashboard where its port is taken, and says so', async () => {
    const { stops, worker } = aWorker();
    const interrupt = new AbortController();
    const startWorker = async () => {
      setImmediate(() => interrupt.abort());
      return worker;
    };
    const startServer = async (): Promise<never> => {
      throw new PawlError('config_invalid', 'port 3900 of 127.0.0.1 is taken by another pawl');
    };
    const ran = await pawl(['dev'], { services: { startWorker, startServer }, interrupt: interrupt.signal });
    expect(ran).toMatchObject({ exit: 0, leftOpen: 0 });
    expect(ran.err).toContain('warning: no dashboard: port 3900 of 127.0.0.1 is taken by another pawl');
    expect(stops).toEqual(['stop']);
  });

  it('ends its worker when the server cannot start for another reason', async () => {
    const { stops, worker } = aWorker();
    const startServer = async (): Promise<never> => {
      throw new PawlError('database_unreachable', 'Postgres does not answer');
    };
    const services = { startWorker: async () => worker, startServer };
    expect(await pawl(['dev'], { services })).toMatchObject({ exit: 8, leftOpen: 0 });
    expect(stops).toEqual(['stop']);
  });

  it('closes the database when the worker cannot start', async () => {
    const startWorker = async (): Promise<never> => {
      throw new PawlError('config_invalid', 'there is no pawl.config.ts');
    };
    expect(await pawl(['dev'], { services: { startWorker } })).toMatchObject({ exit: 2, leftOpen: 0 });
  });
});

it('migrate names what it applied', async () => {
  const migrate = async () => ({ applied: ['0000_first_tables'] });
  expect((await pawl(['migrate'], { services: { migrate } })).out).toBe('applied 0000_first_tables\n');
  expect((await pawl(['migrate', '-o', 'id'], { services: { migrate } })).out).toBe('0000_first_tables\n');
  expect(await pawl(['migrate'])).toMatchObject({
    exit: 0,
    out: '',
    err: 'nothing to do: the database is up to date\n',
  });
});

it('demo ends with the status of its own checks', async () => {
  const given: unknown[] = [];
  const runDemo = async (options: { csv?: string }) => {
    given.push(options);
    return 1;
  };
  expect((await pawl(['demo', '--csv', 'sales.csv'], { services: { runDemo } })).exit).toBe(1);
  expect(given).toEqual([{ csv: 'sales.csv' }]);
});

describe('what is registered', () => {
  const tool: ToolListing = {
    name: 'charge',
    description: 'Charges\na card',
    effect: 'once',
    effectDeclared: true,
    agents: ['billing'],
    disabledFor: [],
    outFor: [],
  };
  const agent = {
    name: 'billing',
    version: 'abc',
    model: 'gpt-4o-mini',
    limits: { maxSteps: 60, maxTurns: 25, maxTokens: null, maxCostUsd: null, deadlineMs: 3_600_000, onLimit: 'finish' },
    tools: [tool],
    registeredAt: '2026-03-01T11:58:00.000Z',
  } as unknown as AgentListing;

  it('is listed in every form', async () => {
    const runs = {
      agents: async () => [agent],
      tools: async () => [tool, { ...tool, name: 'look', effect: 'none' as const, effectDeclared: false }],
    };
    const agents = await pawl(['agents', 'list'], { runs });
    expect(agents.out).toMatch(
      /\nbilling +gpt-4o-mini +charge +60 steps, 25 turns, 1h00m, then finish +abc +2m ago\n$/,
    );
    expect(JSON.parse((await pawl(['agents', 'list', '-o', 'json'], { runs })).out)).toEqual({
      data: [agent],
      page: { next: null },
    });
    const tools = await pawl(['tools', 'list'], { runs });
    expect(tools.out).toMatch(/\nlook +none \(by default\) +billing +enabled +Charges a card\n$/);
    expect((await pawl(['tools', 'list', '-o', 'id'], { runs })).out).toBe('charge\nlook\n');
  });

  it('shows which tools are withdrawn', async () => {
    const tools = async () => [
      { ...tool, disabledFor: 'all' as const },
      { ...tool, name: 'look', disabledFor: ['billing', 'audit'] },
    ];
    const { out } = await pawl(['tools', 'list'], { runs: { tools } });
    expect(out).toMatch(/\ncharge .* disabled +Charges/);
    expect(out).toMatch(/\nlook .* disabled for billing, audit +Charges/);
  });

  it('is withdrawn and given back, for all agents or one', async () => {
    const asked: unknown[] = [];
    const runs = {
      disableTool: async (name: string, options: unknown) => {
        asked.push(['disable', name, options]);
        return { ...tool, disabledFor: ['billing'] };
      },
      enableTool: async (name: string, options: unknown) => {
        asked.push(['enable', name, options]);
        return tool;
      },
    };
    const disabled = await pawl(['tools', 'disable', 'charge', '--agent', 'billing'], { runs });
    expect(disabled).toMatchObject({ exit: 0, out: 'charge  disabled for billing\n' });
    expect((await pawl(['tools', 'enable', 'charge'], { runs })).out).toBe('charge  enabled\n');
    expect(JSON.parse((await pawl(['tools', 'enable', 'charge', '-o', 'json'], { runs })).out)).toEqual(tool);
    expect(asked.slice(0, 2)).toEqual([
      ['disable', 'charge', { agent: 'billing' }],
      ['enable', 'charge', { agent: undefined }],
    ]);
  });

  it('is nothing before a worker ran', async () => {
    const ran = await pawl(['agents', 'list'], { runs: { agents: async () => [] } });
    expect(ran).toMatchObject({
      exit: 0,
      out: '',
      err: 'no worker has registered an agent yet; start one with pawl dev or pawl worker\n',
    });
  });
});

describe('the terminal', () => {
  it('has no colour and no spinner in a pipe, nor where none is wanted', () => {
    for (const options of [{ isTTY: false }, { isTTY: true, colours: false }]) {
      const { terminal, stderr } = makeTerminal(options);
      terminal.status(() => 'working');
      terminal.say(terminal.paintErr('red', 'failed'));
      terminal.status(null);
      expect(stderr.text).toBe('failed\n');
    }
  });

  it('draws what is under way on one line and takes it away before any other', () => {
    const { terminal, stderr } = makeTerminal({ isTTY: true, colours: true, columns: 20 });
    terminal.status(() => '正在执行一个很长很长的步骤');
    terminal.say('done');
    terminal.status(null);
    expect(stderr.text.endsWith('正在执行一个很长…\r\x1b[2Kdone\n')).toBe(true);
  });

  it('goes quiet when its reader is gone', async () => {
    const { terminal, stdout } = makeTerminal();
    stdout.destroy(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    await new Promise((resolve) => setImmediate(resolve));
    terminal.out('nobody hears this');
    await terminal.flush();
    expect(terminal.gone.aborted).toBe(true);
    expect(stdout.text).toBe('');
  });
});
