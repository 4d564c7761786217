/**
 * Hands one composed message to an SMTP server, and tells apart what was certainly not sent from what may have been: until
 * the first byte of the message is read for the server, and when the server refuses it in so many words, nothing was sent.
 */
import { Readable } from 'node:stream';
import { parseConnectionUrl } from 'nodemailer/lib/shared';
import SMTPConnection, { type SMTPConnectionSendInfo, type SMTPEnvelope } from 'nodemailer/lib/smtp-connection';

export type SmtpEnd =
  | { sent: 'yes'; accepted: string[]; rejected: string[]; response: string }
  /** Nothing reached anybody. */
  | { sent: 'no'; error: unknown }
  | { sent: 'unknown'; error: unknown };

const times = { dnsTimeout: 10_000, connectionTimeout: 15_000, greetingTimeout: 15_000, socketTimeout: 30_000 };

export async function deliverBySmtp(
  smtpUrl: string,
  envelope: SMTPEnvelope,
  message: Buffer,
  signal?: AbortSignal,
): Promise<SmtpEnd> {
  const { auth, ...options } = parseConnectionUrl(smtpUrl);
  const connection = new SMTPConnection({ ...options, ...times, logger: false });
  let handedOver = false;
  const body = new Readable({
    read() {
      handedOver = true;
      this.push(message);
      this.push(null);
    },
  });
  let onAbort: (() => void) | undefined;
  try {
    const broken = new Promise<never>((_, reject) => {
      connection.on('error', reject);
      connection.on('end', () => reject(new Error('The SMTP server closed the connection.')));
      onAbort = () => reject(signal?.reason);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
    broken.catch(() => {});
    signal?.throwIfAborted();
    const send = async () => {
      await ask<undefined>((done) => connection.connect((error) => done(error ?? null, undefined)));
      if (auth) await ask((done) => connection.login(auth, done));
      return await ask<SMTPConnectionSendInfo>((done) => connection.send(envelope, body, done));
    };
    const sending = send();
    sending.catch(() => {});
    const info = await Promise.race([sending, broken]);
    return { sent: 'yes', accepted: info.accepted, rejected: info.rejected, response: info.response };
  } catch (error) {
    return handedOver && !isRefusal(error) ? { sent: 'unknown', error } : { sent: 'no', error };
  } finally {
    if (onAbort) signal?.removeEventListener('abort', onAbort);
    connection.close();
  }
}

/** The server answered the whole message with a 4xx or 5xx: it has not taken it. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, responseCode } = error as { code?: unknown; responseCode?: unknown };
  return code === 'EMESSAGE' && typeof responseCode === 'number' && responseCode >= 400 && responseCode < 600;
}

function ask<T>(start: (done: (error: Error | null, value?: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => start((error, value) => (error ? reject(error) : resolve(value as T))));
}
