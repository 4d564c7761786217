/**
 * The wire protocol of Postgres as far as a proxy must read it to lose the right reply: it knows a statement that records,
 * claims or starts when it passes, and whether the reply says that it was done. One reader for each connection.
 */
import type { Swallowed } from './evidence.js';

export interface Wanted {
  what: Swallowed;
  runId: string;
  seq: number | null;
  token: string | null;
}

/** Splits one direction of a connection into messages. The first of a client has no type byte. */
class Messages {
  private rest: Buffer = Buffer.alloc(0);

  constructor(private startup: boolean) {}

  read(chunk: Buffer): { type: string; body: Buffer }[] {
    this.rest = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk]);
    const found: { type: string; body: Buffer }[] = [];
    for (;;) {
      const head = this.startup ? 0 : 1;
      if (this.rest.length < head + 4) return found;
      const end = head + this.rest.readInt32BE(head);
      if (this.rest.length < end) return found;
      const type = this.startup ? 'startup' : String.fromCharCode(this.rest[0] ?? 0);
      found.push({ type, body: this.rest.subarray(head + 4, end) });
      this.rest = this.rest.subarray(end);
      this.startup = false;
    }
  }
}

/** Statements by the names that src/postgres gives them. */
const kinds: Record<string, 'record' | 'claim' | 'start'> = {
  'pawl-write': 'record',
  'pawl-record': 'record',
  'pawl-record-told': 'record',
  'pawl-record-whole': 'record',
  'pawl-claim': 'claim',
  'pawl-claims': 'claim',
  'pawl-claims-first': 'claim',
  'pawl-insert-runs': 'start',
};

export class PgReader {
  private readonly asked = new Messages(true);
  private readonly answered = new Messages(false);
  private inTransaction = false;
  /** What the open transaction has written. */
  private written: Wanted | null = null;
  /** The statement whose reply is to be lost, and the reply so far. */
  private caught: { wanted: Wanted; rows: number; kept: Buffer[]; done: boolean } | null = null;

  /** `wants`: asked once for each statement that passes; true catches its reply. */
  constructor(private readonly wants: (what: Swallowed) => boolean) {}

  fromClient(chunk: Buffer): void {
    for (const { type, body } of this.asked.read(chunk)) {
      if (type === 'B') this.bound(body);
      else if (type === 'Q')
        this.queried(
          body
            .toString('latin1', 0, body.length - 1)
            .trim()
            .toLowerCase(),
        );
    }
  }

  /** What is to be passed on, or that the reply is whole and must be lost. */
  fromServer(chunk: Buffer): { pass: Buffer[] } | { swallow: Wanted } {
    const messages = this.answered.read(chunk);
    const { caught } = this;
    if (caught === null) return { pass: [chunk] };
    caught.kept.push(chunk);
    for (const { type, body } of messages) {
      if (type === 'C') caught.done ||= isDone(body.toString('latin1'), caught.rows);
      if (type !== 'Z') continue;
      this.caught = null;
      return caught.done ? { swallow: caught.wanted } : { pass: caught.kept };
    }
    return { pass: [] };
  }

  private bound(body: Buffer): void {
    const { statement, values } = readBind(body);
    const what = kinds[statement];
    if (what === undefined) return;
    if (statement.startsWith('pawl-record')) {
      const { wanted, rows } = readRecords(values);
      return this.catch(wanted, rows);
    }
    if (what !== 'record') return this.catch(readOther(what, values), readArray(values[0]).length);
    const wanted = readWrite(values);
    // In a transaction it is the reply to the commit that tells.
    if (this.inTransaction) this.written = wanted;
    else this.catch(wanted, 1);
  }

  private catch(wanted: Wanted, rows: number): void {
    if (this.caught === null && this.wants(wanted.what)) this.caught = { wanted, rows, kept: [], done: false };
  }

  private queried(text: string): void {
    if (text === 'commit' && this.written !== null) this.catch(this.written, 1);
    this.inTransaction = text === 'begin' || (this.inTransaction && text !== 'commit' && text !== 'rollback');
    if (text === 'begin' || !this.inTransaction) this.written = null;
  }
}

/** A claim that took nothing, and a record that found its run moved, answer as well; only what took effect as a whole counts. */
function isDone(tag: string, rows: number): boolean {
  return tag.startsWith('COMMIT') || tag === `SELECT ${rows}\0` || tag === `SELECT ${rows}`;
}

/** Of a batch, the first: its columns are arrays. */
function readOther(what: Swallowed, [runIds, seqs, , tokens]: (string | null | undefined)[]): Wanted {
  const [runId = ''] = readArray(runIds);
  if (what !== 'claim') return { what, runId, seq: null, token: null };
  return { what, runId, seq: Number(readArray(seqs)[0]), token: readArray(tokens)[0] ?? null };
}

/** An array of ids or numbers as Postgres writes it. */
function readArray(text: string | null | undefined): string[] {
  return [...(text ?? '').matchAll(/[^{}",]+/g)].map(([item]) => item);
}

/** Of the records in one statement, the first: their runs, steps and tokens are arrays behind the four of what is written. */
function readRecords([, , , , runIds, seqs, tokens]: (string | null)[]): { wanted: Wanted; rows: number } {
  const all = readArray(runIds);
  const wanted = { runId: all[0] ?? '', seq: Number(readArray(seqs)[0]), token: readArray(tokens)[0] ?? null };
  return { wanted: { what: 'record', ...wanted }, rows: all.length };
}

function readBind(body: Buffer): { statement: string; values: (string | null)[] } {
  let at = body.indexOf(0) + 1;
  const end = body.indexOf(0, at);
  const statement = body.toString('utf8', at, end);
  if (!(statement in kinds)) return { statement, values: [] };
  at = end + 1;
  at += 2 + 2 * body.readInt16BE(at);
  const count = body.readInt16BE(at);
  at += 2;
  const values = Array.from({ length: count }, () => {
    const length = body.readInt32BE(at);
    at += 4;
    if (length < 0) return null;
    at += length;
    return body.toString('utf8', at - length, at);
  });
  return { statement, values };
}

/**
 * The parameters of write.ts: the run, its id, the steps planned and those changed; archived attempts are the sixth. A worker
 * that records leaves its claim on the step, or an attempt that says it was recorded.
 */
function readWrite([, runId, , changed, , archived]: (string | null)[]): Wanted {
  const [step] = JSON.parse(changed ?? '[]') as { seq: number; status: string; claim_token: string | null }[];
  const [attempt] = JSON.parse(archived ?? '[]') as { token: string; recorded: boolean }[];
  const of = { runId: runId ?? '', seq: step?.seq ?? null };
  if (attempt !== undefined) {
    return attempt.recorded ? { ...of, what: 'record', token: attempt.token } : { ...of, what: 'rescue', token: null };
  }
  const token = step?.status === 'completed' || step?.status === 'dead' ? step.claim_token : null;
  return { ...of, what: token === null ? 'command' : 'record', token };
}
