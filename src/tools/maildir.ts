/**
 * A maildir: one message a file, written in tmp/ and moved to new/ when it is whole. Stands in for an SMTP server where
 * none is set up, and any mail reader opens it.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';

/** Delivers a message and returns its file. `onHandedOver` is called just before the message could be seen. */
export async function deliverToMaildir(dir: string, message: Buffer, onHandedOver: () => void): Promise<string> {
  for (const folder of ['tmp', 'new', 'cur']) await mkdir(join(dir, folder), { recursive: true });
  const host = hostname().replace(/[^a-zA-Z0-9.-]/g, '_') || 'localhost';
  const name = `${Math.floor(Date.now() / 1000)}.${process.pid}_${randomBytes(8).toString('hex')}.${host}`;
  const temporary = join(dir, 'tmp', name);
  const file = join(dir, 'new', name);
  try {
    const handle = await open(temporary, 'wx', 0o600);
    try {
      await handle.writeFile(message);
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  onHandedOver();
  await rename(temporary, file);
  return file;
}
