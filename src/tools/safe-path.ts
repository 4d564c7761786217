/**
 * File names that a model gives, read as paths inside one directory and nothing else. A name is refused for what it says
 * (`..`, absolute, hidden, look-alike characters) and then for what stands on the disk (a link, a device, a way out).
 */
import { constants } from 'node:fs';
import { lstat, mkdir, open, realpath } from 'node:fs/promises';
import { join, resolve, sep } from 'node:path';

/** A path that was refused: the message says why, in words for the model. */
export class PathRefused extends Error {
  override readonly name = 'PathRefused';
}

const reserved = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;
// Controls, formatting characters (bidi marks, zero width) and unassigned or broken code points.
const invisible = /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/u;

/** The segments of a relative path, or PathRefused. Reads the name alone; touches no disk. */
function readPath(path: string): string[] {
  const refuse = (why: string): never => {
    throw new PathRefused(`Path ${JSON.stringify(path)} refused: ${why}. Use a plain relative path like "report.md".`);
  };
  if (path === '') refuse('it is empty');
  if (path.length > 500) refuse('it is longer than 500 characters');
  if (invisible.test(path)) refuse('it holds control or invisible characters');
  if (path.includes('\\') || path.includes(':')) refuse('backslashes and colons are not allowed');
  if (path.startsWith('/')) refuse('it is absolute');
  const segments = path.split('/');
  if (segments.length > 10) refuse('it is more than 10 folders deep');
  for (const segment of segments) {
    // Full-width dots and slashes and the like become plain ones under NFKC, here or on another file system.
    const plain = segment.normalize('NFKC');
    if (segment === '') refuse('it holds an empty part');
    if (/[\\/:]/.test(plain)) refuse('it holds a look-alike of a slash or colon');
    if (plain.startsWith('.')) refuse('".." and hidden names are not allowed');
    if (plain.startsWith('~')) refuse('"~" is not allowed at the start of a name');
    if (/[. ]$/.test(plain) || plain.startsWith(' '))
      refuse('a part of it starts or ends with a space, or ends with a dot');
    if (reserved.test(plain)) refuse(`"${segment}" is a device name on some systems`);
    if (Buffer.byteLength(segment) > 200) refuse('a part of it is longer than 200 bytes');
  }
  return segments;
}

export interface SafeFile {
  /** Real path of the folder the file is in. */
  folder: string;
  /** Real path of the file itself, which need not exist. */
  file: string;
}

/** Where a path leads inside `dir`; folders are made on request. Refuses links anywhere below `dir`. */
export async function locate(dir: string, path: string, options: { makeFolders: boolean }): Promise<SafeFile> {
  const segments = readPath(path);
  const root = await realpath(resolve(dir));
  let folder = root;
  for (const segment of segments.slice(0, -1)) {
    folder = join(folder, segment);
    if (options.makeFolders) await mkdir(folder).catch(ignoreCode('EEXIST'));
    const stat = await lstat(folder).catch(ignoreCode('ENOENT'));
    if (stat === undefined) throw new PathRefused(`There is no folder ${JSON.stringify(segment)}.`);
    if (!stat.isDirectory()) throw new PathRefused(`${JSON.stringify(segment)} in the path is not a folder.`);
  }
  await assertInside(root, folder);
  const file = join(folder, segments.at(-1) ?? '');
  const stat = await lstat(file).catch(ignoreCode('ENOENT'));
  if (stat !== undefined && !stat.isFile()) {
    throw new PathRefused(
      `${JSON.stringify(path)} exists and is ${stat.isDirectory() ? 'a folder' : 'not a plain file'}.`,
    );
  }
  return { folder, file };
}

/** Refuses a folder that, with every link followed, is not inside the root: one may have been swapped in meanwhile. */
export async function assertInside(root: string, folder: string): Promise<void> {
  const real = await realpath(folder);
  if (real !== root && !real.startsWith(root.endsWith(sep) ? root : root + sep)) {
    throw new PathRefused('The path leads out of the work directory.');
  }
  if (real !== folder) throw new PathRefused('The path leads through a link.');
}

/** Reads a plain file of at most `maxBytes` inside `dir`; a link, a device or a folder is refused. */
export async function readSafely(dir: string, path: string, maxBytes: number): Promise<Buffer> {
  const { file } = await locate(dir, path, { makeFolders: false });
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
    ignoreCode('ENOENT'),
  );
  if (handle === undefined) throw new PathRefused(`There is no file ${JSON.stringify(path)}.`);
  try {
    const stat = await handle.stat();
    if (!stat.isFile()) throw new PathRefused(`${JSON.stringify(path)} is not a plain file.`);
    if (stat.size > maxBytes) throw new PathRefused(`${JSON.stringify(path)} is larger than ${maxBytes} bytes.`);
    return await handle.readFile();
  } finally {
    await handle.close();
  }
}

function ignoreCode(code: string): (error: unknown) => undefined {
  return (error) => {
    if (error instanceof Error && 'code' in error && error.code === code) return undefined;
    throw error;
  };
}
