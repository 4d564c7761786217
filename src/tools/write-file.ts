/**
 * `write_file`: writes a text file inside one work directory. The file appears whole or not at all (temporary file, fsync,
 * rename), and writing the same again changes nothing, so the call may be repeated. It never follows a link.
 */
import { createHash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir, open, realpath, rename, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { defineTool } from '../core/tool.js';
import { permissionDenied } from '../core/tool-answer.js';
import { assertInside, locate, PathRefused } from './safe-path.js';

export interface WriteFileOptions {
  /** The work directory; made when it does not exist. */
  dir: string;
  /** Size of a file at most, in bytes of UTF-8. Default 1 MB. */
  maxBytes?: number;
  name?: string;
  description?: string;
}

export interface WrittenFile {
  path: string;
  bytes: number;
  sha256: string;
}

/** Writes `content` to `path` inside the work directory; throws PathRefused where that would reach beyond it. */
export async function writeTextFile(
  args: { path: string; content: string },
  { dir, maxBytes = 1_000_000 }: WriteFileOptions,
  signal?: AbortSignal,
): Promise<WrittenFile> {
  const bytes = Buffer.from(args.content, 'utf8');
  if (bytes.length > maxBytes)
    throw new PathRefused(`The content is ${bytes.length} bytes; at most ${maxBytes} can be written.`);
  await mkdir(dir, { recursive: true });
  const { folder, file } = await locate(dir, args.path, { makeFolders: true });
  const root = await realpath(resolve(dir));
  signal?.throwIfAborted();
  const temporary = join(folder, `.${randomBytes(9).toString('hex')}.tmp`);
  try {
    await writeNew(temporary, bytes);
    await assertInside(root, folder);
    signal?.throwIfAborted();
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder(folder);
  return { path: args.path, bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
}

async function writeNew(path: string, bytes: Buffer): Promise<void> {
  const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;
  const handle = await open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o644);
  try {
    await handle.writeFile(bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Makes the rename itself durable; some file systems cannot sync a folder, and then do not need it. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY).catch(() => undefined);
  if (handle === undefined) return;
  await handle.sync().catch(() => {});
  await handle.close();
}

const input = z.object({
  path: z.string().describe('Relative path of the file, e.g. "report.md"'),
  content: z.string().describe('The whole text of the file; an existing file is replaced'),
});

export function writeFile(options: WriteFileOptions) {
  return defineTool({
    name: options.name ?? 'write_file',
    description: options.description ?? 'Writes a text file in the work directory and returns {path, bytes, sha256}.',
    input,
    effect: 'idempotent',
    timeoutMs: 30_000,
    execute: async (args, ctx) => {
      try {
        return await writeTextFile(args, options, ctx.signal);
      } catch (error) {
        if (error instanceof PathRefused) throw permissionDenied(error.message.replace(/\.$/, ''));
        throw error;
      }
    },
  });
}
