/**
 * write_file on a real folder: the file is whole or absent, and no name leads out of the folder or through a link.
 */
import { existsSync } from 'node:fs';
import { link, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PathRefused, readSafely } from '../../src/tools/safe-path.js';
import { writeTextFile } from '../../src/tools/write-file.js';

let base = '';
let dir = '';
let outside = '';

beforeEach(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), 'pawl-write-')));
  dir = join(base, 'work');
  outside = join(base, 'outside');
  await mkdir(dir);
  await mkdir(outside);
  await writeFile(join(outside, 'secret.txt'), 'secret');
});
afterEach(() => rm(base, { recursive: true }));

const write = (path: string, content = 'text', signal?: AbortSignal) =>
  writeTextFile({ path, content }, { dir, maxBytes: 1_000 }, signal);

/** Something on the disk that is neither a file, a folder nor a link. */
const listen = (path: string): Promise<Server> =>
  new Promise((resolve) => {
    const server = createServer().listen(path, () => resolve(server));
  });

describe('what it writes', () => {
  it('writes a file, makes folders on the way, and writing it again is the same', async () => {
    const first = await write('2026/märz/报告.md', '# é');
    expect(await readFile(join(dir, '2026/märz/报告.md'), 'utf8')).toBe('# é');
    expect(await write('2026/märz/报告.md', '# é')).toEqual(first);
    expect(first).toEqual({ path: '2026/märz/报告.md', bytes: 4, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
  });

  it('makes the work directory, and leaves no temporary file', async () => {
    await rm(dir, { recursive: true });
    await write('a.md', 'one');
    await write('a.md', 'two');
    expect(await readdir(dir)).toEqual(['a.md']);
    expect(await readFile(join(dir, 'a.md'), 'utf8')).toBe('two');
  });

  it('works where the work directory itself is reached by a link', async () => {
    await symlink(dir, join(base, 'link'));
    await writeTextFile({ path: 'a.md', content: 'x' }, { dir: join(base, 'link') });
    expect(await readdir(dir)).toEqual(['a.md']);
  });

  it('counts the size in bytes, and writes nothing of what is too large', async () => {
    await write('fits.md', 'x'.repeat(1_000));
    await expect(write('large.md', 'é'.repeat(501))).rejects.toThrow(/1002 bytes; at most 1000/);
    expect(await readdir(dir)).toEqual(['fits.md']);
  });

  it('writes nothing once the caller gave up', async () => {
    await expect(write('a.md', 'x', AbortSignal.abort(new Error('given up')))).rejects.toThrow('given up');
    expect(await readdir(dir)).toEqual([]);
  });

  it('replaces a hard link instead of writing through it', async () => {
    await link(join(outside, 'secret.txt'), join(dir, 'a.md'));
    await write('a.md', 'mine');
    expect(await readFile(join(outside, 'secret.txt'), 'utf8')).toBe('secret');
  });
});

describe('names it refuses', () => {
  it.each([
    '',
    '.',
    '..',
    '../outside/a.md',
    'a/../../outside/a.md',
    'a/./b.md',
    '/etc/cron.d/a',
    '//a',
    'a//b.md',
    'a/',
    'a\0.md',
    'a\n.md',
    'C:\\a.md',
    'C:a.md',
    '..\\outside\\a.md',
    'a:stream',
    '\\\\server\\share',
    '~/a.md',
    '.env',
    'a/.git/config',
    'a.md ',
    ' a.md',
    'a.',
    'CON',
    'nul.txt',
    '\uFF0E\uFF0E/outside/a.md',
    '..\uFF0Foutside\uFF0Fa.md',
    'a\u2025b/\u2025',
    'a\u202Efdp.md',
    'a\u200B.md',
    '\uFEFFa.md',
    'a\uD800.md',
    `${'é'.repeat(101)}.md`,
    `${'a/'.repeat(11)}b`,
    'x'.repeat(501),
  ])('%j', async (path) => {
    await expect(write(path)).rejects.toThrow(PathRefused);
    expect(await readdir(dir)).toEqual([]);
    expect(await readdir(outside)).toEqual(['secret.txt']);
  });
});

describe('what stands in the way', () => {
  it('never writes through a link to a file, even one that leads nowhere', async () => {
    await symlink(join(outside, 'secret.txt'), join(dir, 'a.md'));
    await symlink(join(outside, 'new.txt'), join(dir, 'b.md'));
    await expect(write('a.md')).rejects.toThrow(/not a plain file/);
    await expect(write('b.md')).rejects.toThrow(/not a plain file/);
    expect(await readFile(join(outside, 'secret.txt'), 'utf8')).toBe('secret');
    expect(existsSync(join(outside, 'new.txt'))).toBe(false);
  });

  it('never goes through a linked folder, nor one that leads back inside', async () => {
    await symlink(outside, join(dir, 'out'));
    await mkdir(join(dir, 'in'));
    await symlink(join(dir, 'in'), join(dir, 'back'));
    await expect(write('out/a.md')).rejects.toThrow(/not a folder/);
    await expect(write('out/deep/a.md')).rejects.toThrow(/not a folder/);
    await expect(write('back/a.md')).rejects.toThrow(/not a folder/);
    expect(await readdir(outside)).toEqual(['secret.txt']);
  });

  it('refuses a folder, a file used as a folder and a socket', async () => {
    await write('file.md');
    await mkdir(join(dir, 'folder'));
    const socket = await listen(join(dir, 'socket'));
    await expect(write('folder')).rejects.toThrow(/is a folder/);
    await expect(write('file.md/a.md')).rejects.toThrow(/not a folder/);
    await expect(write('socket')).rejects.toThrow(/not a plain file/);
    socket.close();
  });
});

describe('reading back, for attachments', () => {
  it('reads plain files of the folder only, up to a size', async () => {
    await write('a.md', 'hello');
    await symlink(join(outside, 'secret.txt'), join(dir, 'link.md'));
    const socket = await listen(join(dir, 'socket'));
    expect(String(await readSafely(dir, 'a.md', 5))).toBe('hello');
    await expect(readSafely(dir, 'a.md', 4)).rejects.toThrow(/larger than 4/);
    await expect(readSafely(dir, 'none.md', 4)).rejects.toThrow(/no file/);
    await expect(readSafely(dir, 'none/a.md', 4)).rejects.toThrow(/no folder/);
    for (const path of ['link.md', 'socket', '../outside/secret.txt', join(outside, 'secret.txt')]) {
      await expect(readSafely(dir, path, 1_000)).rejects.toThrow(PathRefused);
    }
    socket.close();
  });
});
