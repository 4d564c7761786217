/** Which replies of Postgres a campaign loses: of the statement that was asked for, and only when it did what it says. */
import { describe, expect, it } from 'vitest';
import { PgReader } from '../../chaos/campaign/pg-wire.js';

function message(type: string, body: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeInt32BE(body.length + 4);
  return Buffer.concat([Buffer.from(type, 'latin1'), length, body]);
}

const text = (value: string) => Buffer.from(`${value}\0`);
const int16 = (value: number) => Buffer.from([value >> 8, value & 255]);

function bind(statement: string, values: readonly string[]): Buffer {
  const parameters = values.map((value) => {
    const bytes = Buffer.from(value);
    const length = Buffer.alloc(4);
    length.writeInt32BE(bytes.length);
    return Buffer.concat([length, bytes]);
  });
  const head = [text(''), text(statement), int16(0), int16(values.length)];
  return message('B', Buffer.concat([...head, ...parameters, int16(0)]));
}

const startup = message('', Buffer.from('protocol and parameters'));
const query = (words: string) => message('Q', text(words));
const done = (tag: string) => Buffer.concat([message('C', text(tag)), message('Z', Buffer.from('I'))]);

const step = JSON.stringify([{ seq: 4, status: 'completed', claim_token: 'token-1' }]);
const recorded = ['{}', 'run_1', '[]', step, '[]', '[]', '[]', '[]', '3'];

function reader(wanted: string): PgReader {
  const made = new PgReader((what) => what === wanted);
  made.fromClient(startup);
  return made;
}

describe('the reply to a statement', () => {
  it('is lost when a record of its own was written', () => {
    const wire = reader('record');
    wire.fromClient(bind('pawl-write', recorded));
    expect(wire.fromServer(done('SELECT 1'))).toEqual({
      swallow: { what: 'record', runId: 'run_1', seq: 4, token: 'token-1' },
    });
  });

  it('is passed on whole when the record found its run moved', () => {
    const wire = reader('record');
    wire.fromClient(bind('pawl-write', recorded));
    expect(wire.fromServer(done('SELECT 0'))).toEqual({ pass: [done('SELECT 0')] });
  });

  it('is that of the commit when the record was written in a transaction', () => {
    const wire = reader('record');
    wire.fromClient(query('begin'));
    wire.fromClient(bind('pawl-write', recorded));
    expect(wire.fromServer(done('SELECT 1'))).toEqual({ pass: [done('SELECT 1')] });
    wire.fromClient(query('commit'));
    expect(wire.fromServer(done('COMMIT'))).toMatchObject({ swallow: { what: 'record', seq: 4 } });
  });

  it('is passed on when the transaction was rolled back', () => {
    const wire = reader('record');
    for (const words of ['begin', 'rollback', 'begin', 'commit']) {
      if (words === 'rollback') wire.fromClient(bind('pawl-write', recorded));
      wire.fromClient(query(words));
    }
    expect(wire.fromServer(done('COMMIT'))).toEqual({ pass: [done('COMMIT')] });
  });

  it('of several records is lost only when each of them was written', () => {
    const records = ['[]', '[]', '[]', '[]', '{"run_1","run_2"}', '{"4","7"}', '{"token-1","token-2"}'];
    const wire = reader('record');
    wire.fromClient(bind('pawl-record', records));
    expect(wire.fromServer(done('SELECT 1'))).toEqual({ pass: [done('SELECT 1')] });
    wire.fromClient(bind('pawl-record-told', records));
    expect(wire.fromServer(done('SELECT 2'))).toEqual({
      swallow: { what: 'record', runId: 'run_1', seq: 4, token: 'token-1' },
    });
  });

  it('of a claim is lost only where a step was taken, whatever the chunks', () => {
    const wire = reader('claim');
    const asked = bind('pawl-claims', ['{"run_1"}', '{"2"}', '{"1"}', '{"token-2"}', 'worker_1']);
    wire.fromClient(asked.subarray(0, 7));
    wire.fromClient(asked.subarray(7));
    const reply = done('SELECT 1');
    expect(wire.fromServer(reply.subarray(0, 9))).toEqual({ pass: [] });
    expect(wire.fromServer(reply.subarray(9))).toEqual({
      swallow: { what: 'claim', runId: 'run_1', seq: 2, token: 'token-2' },
    });
  });

  it('of a claim taken away by maintenance names no token', () => {
    const wire = reader('rescue');
    const taken = JSON.stringify([{ token: 'token-3', recorded: false }]);
    const released = JSON.stringify([{ seq: 4, status: 'pending', claim_token: null }]);
    wire.fromClient(bind('pawl-write', ['{}', 'run_1', '[]', released, '[]', taken, '[]', '[]', '3']));
    expect(wire.fromServer(done('SELECT 1'))).toEqual({
      swallow: { what: 'rescue', runId: 'run_1', seq: 4, token: null },
    });
  });
});
