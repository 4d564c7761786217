/** Where a project may lie and who may run it: odd paths, closed folders, root and plain users, a package in any state. */
import { chmod, chown, lstat, mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { copyPackageWithoutLinks, isRoot, makeProject, modeOf, query, start, startInChild } from './projects.js';

it('runs in a path with spaces and Chinese characters, longer than a socket path may be', async () => {
  const dir = join(await makeProject(), `it's a long 工作 目录 ${'x'.repeat(100)}`);
  const server = await start(dir);
  expect(server.home).toBe(join(dir, '.pawl', 'postgres'));
  expect(await query(server.url, `SELECT '工作' AS word`)).toEqual([{ word: '工作' }]);
});

it('runs in a path and from a package whose names mean something to a shell', async () => {
  const native = await copyPackageWithoutLinks();
  const odd = join(await makeProject(), 'a "b" $HOME `c` \\d');
  await rename(join(native, '..'), odd);
  const server = await start(join(odd, 'project'), { native: join(odd, 'native') });
  expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  expect(await readFile(join(odd, 'project', '.pawl', 'where-the-database-is.txt'), 'utf8')).toContain(server.home);
});

it('runs in a 0700 folder and leaves its mode and owner as they were', async () => {
  const dir = await makeProject(0o700);
  const before = await stat(dir);
  const server = await start(dir);
  expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  const after = await stat(dir);
  expect([after.mode, after.uid, after.gid]).toEqual([before.mode, before.uid, before.gid]);
  // Root hands the server to an account that cannot enter the folder, so its files lie elsewhere and a note says where.
  const note = await readFile(join(dir, '.pawl', 'where-the-database-is.txt'), 'utf8').catch(() => undefined);
  if (isRoot) expect(note).toContain(server.home);
  else expect(server.home).toBe(join(dir, '.pawl', 'postgres'));
  await server.stop();
  expect((await start(dir)).home).toBe(server.home);
});

it('runs for a plain user', async () => {
  const dir = await makeProject(0o777);
  const native = await copyPackageWithoutLinks();
  const child = await startInChild({ dir: join(dir, '.pawl'), native, plain: true });
  expect(child.server).toMatchObject({ started: true, home: join(dir, '.pawl', 'postgres') });
  expect((await lstat(child.server.home)).uid).not.toBe(0);
  await child.stop();
});

it("makes the package's missing links where it may", async () => {
  const native = await copyPackageWithoutLinks();
  const server = await start(await makeProject(), { native });
  expect((await lstat(join(native, 'lib', 'libpq.so.5'))).isSymbolicLink()).toBe(true);
  expect(await readdir(server.home)).not.toContainEqual(expect.stringMatching(/^binaries-/));
});

it('uses a copy where the package is not writable, and leaves the package as it is', async () => {
  const dir = await makeProject(0o777);
  const native = await copyPackageWithoutLinks();
  await chmod(join(native, 'lib'), 0o555);
  const child = await startInChild({ dir: join(dir, '.pawl'), native, plain: true });
  expect(await readdir(child.server.home)).toContainEqual(expect.stringMatching(/^binaries-/));
  expect(await readdir(join(native, 'lib'))).not.toContain('libpq.so.5');
  await child.stop();
  await chmod(join(native, 'lib'), 0o755);
});

it('uses a copy where the account that runs it cannot enter the package', async () => {
  const native = await copyPackageWithoutLinks();
  await chmod(join(native, '..'), 0o700);
  const server = await start(await makeProject(), { native });
  expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  expect((await readdir(server.home)).some((name) => /^binaries-/.test(name))).toBe(isRoot);
});

it('takes no folder that others can open, neither in the project nor elsewhere', async () => {
  const dir = await makeProject();
  const inside = join(dir, '.pawl', 'postgres');
  await mkdir(inside, { recursive: true });
  await chmod(inside, 0o755);
  const server = await start(dir);
  expect(server.home).not.toBe(inside);
  expect(await modeOf(inside)).toBe('755');
  await server.stop();
  await rm(server.home, { recursive: true });
  await mkdir(server.home);
  await chmod(server.home, 0o755);
  await expect(start(dir)).rejects.toThrow(/found no folder it can use.*Set DATABASE_URL/);
});

it('runs for a plain user in a folder where nothing may be written, with the database elsewhere', async () => {
  const dir = await makeProject(0o555);
  const native = await copyPackageWithoutLinks();
  const child = await startInChild({ dir: join(dir, '.pawl'), native, plain: true });
  expect(child.server.home).not.toContain(dir);
  expect(await query(child.server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  expect(await readdir(dir)).toEqual([]);
  await child.stop();
});

it("leaves another user's database alone, and says whose it is and what to do", async () => {
  const dir = await makeProject(0o777);
  const native = await copyPackageWithoutLinks();
  const inside = join(dir, '.pawl', 'postgres');
  await mkdir(join(inside, 'data'), { recursive: true });
  await chmod(inside, 0o700);
  // Root makes it somebody else's; a plain user can only close a folder to itself, which looks the same from without.
  if (isRoot) await chown(inside, 1, 1);
  else await chmod(inside, 0o500);
  const refused = startInChild({ dir: join(dir, '.pawl'), native, plain: true });
  await expect(refused).rejects.toThrow(/cannot be used: .*Run Pawl as the user who made it.*or set DATABASE_URL/s);
  expect((await stat(join(inside, 'data'))).isDirectory()).toBe(true);
  await chmod(inside, 0o700);
});
