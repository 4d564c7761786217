/**
 * Loads each config file named on the command line and prints what became of it, as JSON by name. The first argument is the
 * folder the names start from. Run by config-file.test.ts.
 */
import { join } from 'node:path';
import { loadConfigFile } from '../../src/config-file.js';
import { PawlError } from '../../src/core/errors.js';
import { permissionDenied } from '../../src/index.js';

const [root = '', ...names] = process.argv.slice(2);
const results: Record<string, unknown> = {};
for (const name of names) results[name] = await load(join(root, name));
process.stdout.write(JSON.stringify(results));

async function load(file: string): Promise<unknown> {
  try {
    const { agents } = await loadConfigFile(file, { defaultModel: 'default-model' });
    const denied = await agents[0]?.tool('charge')?.execute({ cents: 99_999 }, {} as never);
    return {
      agents: agents.map(({ name, model }) => ({ name, model })),
      sameCopy: denied instanceof permissionDenied().constructor,
    };
  } catch (thrown) {
    if (thrown instanceof PawlError) return { code: thrown.code, message: thrown.message };
    throw thrown;
  }
}
