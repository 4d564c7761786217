/**
 * send_email into a maildir and to an SMTP server: a mail is sent once, a failure says whether anything was handed over,
 * and nothing a model writes becomes a header, a recipient or a file of its own.
 */
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readToolMark } from '../../src/core/tool-answer.js';
import { type EmailArgs, sendEmail, sendMessage } from '../../src/tools/send-email.js';
import { type BreakAt, type SmtpServer, startSmtpServer } from './smtp-server.js';

let base = '';
let maildir = '';
let work = '';
let server: SmtpServer | undefined;

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'pawl-mail-'));
  maildir = join(base, 'mail');
  work = join(base, 'work');
  await mkdir(work);
});
afterEach(async () => {
  await server?.close();
  server = undefined;
  await rm(base, { recursive: true });
});

const mail: EmailArgs = { to: ['ann@example.com'], subject: 'Sales', text: 'Total: 1,234.50', attachments: [] };
const options = () => ({ from: 'reports@example.com', maildir, attachmentsDir: work });
const send = (args: Partial<EmailArgs> = {}, more = {}, signal?: AbortSignal) =>
  sendMessage({ ...mail, ...args }, { idempotencyKey: 'key-1', signal }, { ...options(), ...more });
const thrown = (sending: Promise<unknown>) =>
  sending.then(
    () => undefined,
    (error: unknown) => error,
  );
const delivered = async () => {
  const names = await readdir(join(maildir, 'new')).catch(() => []);
  return Promise.all(names.map((name) => readFile(join(maildir, 'new', name), 'utf8')));
};
const isNotStarted = (error: unknown) => readToolMark(error)?.kind === 'not_started';

describe('into a maildir', () => {
  it('puts one whole message into new/, with a Message-ID made from the idempotency key', async () => {
    const sent = await send();
    const [message, ...others] = await delivered();
    expect(others).toEqual([]);
    expect(await readdir(join(maildir, 'tmp'))).toEqual([]);
    expect(sent).toEqual({
      messageId: expect.stringMatching(/^<[0-9a-f]{32}@example\.com>$/),
      accepted: ['ann@example.com'],
      rejected: [],
      file: expect.stringContaining(join(maildir, 'new')),
    });
    expect(message).toContain(`Message-ID: ${sent.messageId}`);
    expect(message).toMatch(/^From: reports@example\.com\r\nTo: ann@example\.com\r\nSubject: Sales\r\n/);
    expect(message).toContain('Total: 1,234.50');
    expect((await send()).messageId).toBe(sent.messageId);
    expect(await delivered()).toHaveLength(2);
  });

  it('attaches files of the work directory', async () => {
    await writeFile(join(work, 'report.md'), '# Report');
    await send({ attachments: ['report.md'] });
    expect((await delivered())[0]).toMatch(/filename=report\.md[\s\S]*IyBSZXBvcnQ=/);
  });

  it.each(['../outside.txt', '/etc/passwd', 'none.md', 'link.md', 'data:text/plain,x', 'http://127.0.0.1/x'])(
    'attaches nothing else, and sends nothing: %s',
    async (path) => {
      await writeFile(join(base, 'outside.txt'), 'x');
      await symlink(join(base, 'outside.txt'), join(work, 'link.md'));
      expect(isNotStarted(await thrown(send({ attachments: [path] })))).toBe(true);
      expect(await delivered()).toEqual([]);
    },
  );

  it('keeps the size of attachments within a limit for all of them', async () => {
    await writeFile(join(work, 'a'), 'xxxx');
    await writeFile(join(work, 'b'), 'xxxx');
    const limit = { maxAttachmentBytes: 7 };
    expect(isNotStarted(await thrown(send({ attachments: ['a', 'b'] }, limit)))).toBe(true);
    await send({ attachments: ['a'] }, limit);
    expect(await delivered()).toHaveLength(1);
  });

  it('says that nothing was sent where it cannot write, is not set up, may not mail, or was given up before', async () => {
    await writeFile(join(base, 'file'), '');
    expect(isNotStarted(await thrown(send({}, { maildir: join(base, 'file', 'mail') })))).toBe(true);
    expect(isNotStarted(await thrown(send({}, { maildir: undefined })))).toBe(true);
    expect(isNotStarted(await thrown(send({}, { mayMail: (to: string) => to.endsWith('@example.org') })))).toBe(true);
    expect(isNotStarted(await thrown(send({}, {}, AbortSignal.abort(new Error('given up')))))).toBe(true);
    expect(await delivered()).toEqual([]);
  });
});

describe('what a model may write', () => {
  const tool = sendEmail({ from: 'reports@example.com' });
  it.each([
    { to: ['ann@example.com\r\nBcc: eve@example.com'] },
    { to: ['ann@example.com, eve@example.com'] },
    { to: ['Ann <ann@example.com>'] },
    { to: ['ann@example.com>\r\nRCPT TO:<eve@example.com'] },
    { to: ['"a b"@example.com'] },
    { to: ['ann@example.com '] },
    { to: ['-'] },
    { to: [] },
    { to: Array(21).fill('ann@example.com') },
    { subject: 'Sales\r\nBcc: eve@example.com' },
    { subject: 'Sales\nX: y' },
    { subject: 'Sales\u0007' },
    { subject: '' },
    { attachments: Array(6).fill('a.md') },
  ])('is refused: %j', (part) => {
    expect(tool.parse(JSON.stringify({ ...mail, ...part })).ok).toBe(false);
    expect(tool.parse(JSON.stringify(mail)).ok).toBe(true);
  });

  it('is refused even where nobody validated it, and a body cannot become headers', async () => {
    expect(isNotStarted(await thrown(send({ to: ['ann@example.com\r\nBcc: eve@example.com'] })))).toBe(true);
    await send({ subject: 'Sales\r\nBcc: eve@example.com', text: '\r\n.\r\nMAIL FROM:<x>\r\nBcc: eve@example.com' });
    const [message] = await delivered();
    expect(message?.split('\r\n\r\n')[0]).not.toMatch(/^Bcc:/im);
  });

  it('may be any language', async () => {
    await send({ subject: '销售报告 – März', text: '总计 1,234.50 元' });
    expect((await delivered())[0]).toMatch(/Subject: =\?UTF-8\?/);
  });
});

describe('to an SMTP server', () => {
  const through = async (breakAt?: BreakAt) => {
    server = await startSmtpServer(breakAt);
    return { smtpUrl: server.url };
  };

  it('hands the message over and says who took it', async () => {
    const sent = await send({}, await through());
    expect(sent).toMatchObject({ accepted: ['ann@example.com'], rejected: [], response: '250 queued as 42' });
    expect(server?.messages).toHaveLength(1);
    expect(server?.messages[0]).toContain(sent.messageId);
    expect(await delivered()).toEqual([]);
  });

  it('names the recipients a server refused, when it took others', async () => {
    const to = ['ann@example.com', 'bob@example.com'];
    const sent = await send({ to }, await through('rcpt-second'));
    expect(sent).toMatchObject({ accepted: ['ann@example.com'], rejected: ['bob@example.com'] });
  });

  it.each(['greeting', 'mail', 'rcpt', 'data', 'body-refused'] as const)(
    'vouches that nothing was sent when the server breaks at: %s',
    async (breakAt) => {
      const error = await thrown(send({}, await through(breakAt)));
      expect(String(error)).toContain('Not sent');
      expect(isNotStarted(error)).toBe(true);
    },
  );

  it.each(['smtp://127.0.0.1:1', 'smtp://mail.invalid:25'])('vouches that nothing was sent: %s', async (smtpUrl) => {
    expect(isNotStarted(await thrown(send({}, { smtpUrl })))).toBe(true);
  });

  it('does not vouch for anything once the server had the message and did not answer', async () => {
    const error = await thrown(send({}, await through('body-dropped')));
    expect(server?.messages).toHaveLength(1);
    expect(error).toBeInstanceOf(Error);
    expect(isNotStarted(error)).toBe(false);
  });

  it('stops when the caller gives up, and does not vouch for anything then', async () => {
    const stop = new AbortController();
    const smtp = await through('body-silent');
    if (server) server.onMessage = () => stop.abort(new Error('given up'));
    const error = await thrown(send({}, smtp, stop.signal));
    expect(String(error)).toContain('given up');
    expect(isNotStarted(error)).toBe(false);
  });
});
