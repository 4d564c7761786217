/** Applies a sabotage to a copy of the code in a folder of its own; the sources themselves are never touched. */
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Edit, Sabotage } from './sabotages.js';

export const sources = fileURLToPath(new URL('../../../../', import.meta.url));
const copied = ['src', 'test/chaos/campaign', 'test/support', 'package.json'];
const linked = ['node_modules', 'migrations'];

/** The text with the edit made. Throws unless what it replaces stands there exactly once. */
export function edited(text: string, { file, find, put }: Edit): string {
  const [before, after, ...more] = text.split(find);
  if (before === undefined || after === undefined || more.length > 0)
    throw new Error(`${file} holds ${text.split(find).length - 1} times, not once: ${find}`);
  return before + put + after;
}

/** A copy of the code with the sabotage in it (null: without any). */
export async function copyWith(sabotage: Pick<Sabotage, 'edits'> | null) {
  const root = await mkdtemp(join(tmpdir(), 'pawl-sabotage-'));
  const remove = () => rm(root, { recursive: true, force: true });
  try {
    for (const path of copied) await cp(join(sources, path), join(root, path), { recursive: true });
    for (const path of linked) await symlink(join(sources, path), join(root, path));
    for (const edit of sabotage?.edits ?? []) {
      const path = join(root, edit.file);
      await writeFile(path, edited(await readFile(path, 'utf8'), edit));
    }
  } catch (error) {
    await remove();
    throw error;
  }
  return { root, remove };
}
