/** Reads back what send_email delivered into a maildir, well enough to check it: Message-ID, and the text in readable form. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface DeliveredMail {
  file: string;
  messageId: string;
  /** Headers and bodies with their transfer encodings undone. */
  text: string;
}

/** Every message in new/ and cur/. */
export async function readMaildir(dir: string): Promise<DeliveredMail[]> {
  const mails: DeliveredMail[] = [];
  for (const folder of ['new', 'cur']) {
    const names = await readdir(join(dir, folder)).catch(() => []);
    for (const name of names.sort()) {
      const file = join(dir, folder, name);
      const raw = await readFile(file, 'utf8');
      mails.push({ file, messageId: /^message-id:\s*(<[^>]*>)/im.exec(raw)?.[1] ?? '', text: decode(raw) });
    }
  }
  return mails;
}

function decode(raw: string): string {
  return raw
    .replace(/(?:^[A-Za-z0-9+/]{4,}={0,2}\r?\n)*^[A-Za-z0-9+/]{2,}={0,2}\r?\n(?=\r?\n|--|$)/gm, (block) => {
      const text = Buffer.from(block, 'base64').toString('utf8');
      return text.includes('\ufffd') ? block : text;
    })
    .replace(/=\r?\n/g, '')
    .replace(/(?:=[0-9A-F]{2})+/g, (bytes) => Buffer.from(bytes.replaceAll('=', ''), 'hex').toString('utf8'));
}
