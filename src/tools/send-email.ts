/**
 * `send_email`: mails a text, with files of the work directory attached. It is a `once` tool: what failed before the
 * message was handed over says so (notStarted), anything later is an unknown fate and never repeated. Without an SMTP URL
 * the message goes into a maildir. The Message-ID comes from the call's idempotency key.
 */
import { createHash } from 'node:crypto';
import { createTransport, type SendMailOptions } from 'nodemailer';
import { z } from 'zod';
import { describeThrown } from '../core/errors.js';
import { defineTool } from '../core/tool.js';
import { notStarted } from '../core/tool-answer.js';
import { deliverToMaildir } from './maildir.js';
import { readSafely } from './safe-path.js';
import { deliverBySmtp } from './smtp.js';

export interface SendEmailOptions {
  /** Address of the sender, plain: `reports@example.com`. */
  from: string;
  /** `smtp://user:password@host:587` or `smtps://…`; not given: into the maildir. */
  smtpUrl?: string;
  /** Folder for messages when there is no SMTP server. */
  maildir?: string;
  /** Work directory that attachments are taken from; not given: none can be attached. */
  attachmentsDir?: string;
  /** Bytes of all attachments together at most. Default 10 MB. */
  maxAttachmentBytes?: number;
  /** Whether mail may go to an address. Default: to any. */
  mayMail?: (address: string) => boolean;
  name?: string;
  description?: string;
}

export interface SentEmail {
  messageId: string;
  accepted: string[];
  rejected: string[];
  /** The file of the message, when it went into a maildir. */
  file?: string;
  response?: string;
}

const addressPattern =
  /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$/;
const address = z.string().max(254).regex(addressPattern, 'must be one plain address like "ann@example.com"');

const input = z.object({
  to: z.array(address).min(1).max(20).describe('Recipients, plain addresses'),
  subject: z
    .string()
    .min(1)
    .max(200)
    .regex(/^\P{Cc}*$/u, 'must be one line, without control characters'),
  text: z.string().min(1).max(200_000).describe('The body, plain text'),
  attachments: z.array(z.string()).max(5).default([]).describe('Files of the work directory, by relative path'),
});
export type EmailArgs = z.output<typeof input>;

/** Sends one mail. What is thrown by notStarted was certainly not sent; anything else thrown may have been. */
export async function sendMessage(
  args: EmailArgs,
  ctx: { idempotencyKey: string; signal?: AbortSignal },
  options: SendEmailOptions,
): Promise<SentEmail> {
  let handedOver = false;
  try {
    ctx.signal?.throwIfAborted();
    const messageId = messageIdOf(ctx.idempotencyKey, options.from);
    const message = await compose(args, messageId, options);
    const envelope = { from: options.from, to: args.to };
    if (options.smtpUrl === undefined) {
      if (options.maildir === undefined) throw new Error('Neither an SMTP server nor a maildir is set up.');
      const file = await deliverToMaildir(options.maildir, message, () => {
        ctx.signal?.throwIfAborted();
        handedOver = true;
      });
      return { messageId, accepted: args.to, rejected: [], file };
    }
    const end = await deliverBySmtp(options.smtpUrl, envelope, message, ctx.signal);
    if (end.sent === 'yes') {
      return { messageId, accepted: end.accepted, rejected: end.rejected, response: end.response };
    }
    handedOver = end.sent === 'unknown';
    throw end.error;
  } catch (error) {
    if (handedOver) throw error;
    throw notStarted(`Not sent: ${describeThrown(error)}`);
  }
}

/** A Message-ID that is the same for every attempt of one call, and tells nothing of the run. */
function messageIdOf(idempotencyKey: string, from: string): string {
  const domain = from.split('@').at(-1) ?? '';
  return `<${createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 32)}@${domain}>`;
}

async function compose(args: EmailArgs, messageId: string, options: SendEmailOptions): Promise<Buffer> {
  if (!addressPattern.test(options.from))
    throw new Error(`The sender ${JSON.stringify(options.from)} is no plain address.`);
  for (const to of args.to) {
    if (!addressPattern.test(to)) throw new Error(`${JSON.stringify(to)} is no plain address.`);
    if (options.mayMail?.(to) === false) throw new Error(`Mail to ${to} is not allowed here.`);
  }
  const mail: SendMailOptions = {
    from: options.from,
    to: args.to,
    subject: args.subject,
    text: args.text,
    messageId,
    attachments: await readAttachments(args.attachments, options),
    disableFileAccess: true,
    disableUrlAccess: true,
  };
  const composed = await createTransport({ streamTransport: true, buffer: true, newline: 'windows' }).sendMail(mail);
  if (!Buffer.isBuffer(composed.message)) throw new Error('The message could not be composed.');
  return composed.message;
}

async function readAttachments(paths: string[], options: SendEmailOptions) {
  if (paths.length === 0) return [];
  if (options.attachmentsDir === undefined) throw new Error('Nothing can be attached: no work directory is set up.');
  let left = options.maxAttachmentBytes ?? 10_000_000;
  const attachments: { filename: string; content: Buffer }[] = [];
  for (const path of paths) {
    const content = await readSafely(options.attachmentsDir, path, left);
    left -= content.length;
    attachments.push({ filename: path.split('/').at(-1) ?? path, content });
  }
  return attachments;
}

export function sendEmail(options: SendEmailOptions) {
  return defineTool({
    name: options.name ?? 'send_email',
    description:
      options.description ??
      `Mails a text${options.attachmentsDir === undefined ? '' : ', with files of the work directory attached'}. ` +
        'Each call sends one mail; never call it again for a mail that was sent.',
    input,
    effect: 'once',
    onUnknown: 'ask',
    timeoutMs: 120_000,
    execute: (args, ctx) => sendMessage(args, ctx, options),
  });
}
