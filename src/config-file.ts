/**
 * Loads a user's pawl.config.ts as it is: from any folder, without a build step of theirs, with the running copy of Pawl
 * behind `import … from 'pawl'`. Whatever is wrong with it becomes one PawlError that names the file and the fix.
 * Next: config-hooks.mjs, core/config.ts.
 */
import { existsSync, statSync } from 'node:fs';
import { register } from 'node:module';
import { dirname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Agent } from './core/agent.js';
import { isConfig, type ModelSettings } from './core/config.js';
import { describeThrown, type ErrorCode, errorCodes, PawlError } from './core/errors.js';

export interface LoadedConfig {
  /** Absolute path of the file. */
  file: string;
  /** Each with a model. */
  agents: readonly Agent[];
  models: ReadonlyMap<string, ModelSettings>;
  embeddingModel: string | null;
}

const names = ['pawl.config.ts', 'pawl.config.mts', 'pawl.config.js', 'pawl.config.mjs'];

/** The config file meant: the one named, or the first of the usual names in the folder; null when there is none of these. */
export function findConfigFile(named: string | null, folder: string): string | null {
  if (named !== null) return resolve(folder, named);
  return names.map((name) => resolve(folder, name)).find((file) => existsSync(file)) ?? null;
}

/** Loads a config file; agents that name no model get the default one. */
export async function loadConfigFile(path: string, options: { defaultModel: string }): Promise<LoadedConfig> {
  const file = resolve(path);
  if (!existsSync(file)) {
    throw new PawlError('config_invalid', `there is no file ${file}; create it, or name another with PAWL_CONFIG`);
  }
  if (!statSync(file).isFile()) {
    throw new PawlError('config_invalid', `${file} is a folder; PAWL_CONFIG names a file, such as ${names[0]}`);
  }
  await hookModules();
  const exported = await importDefault(file);
  if (!isConfig(exported)) {
    const found = exported === undefined ? 'has no default export' : 'exports something else by default';
    throw new PawlError(
      'config_invalid',
      `${file} ${found}; end it with: export default defineConfig({ agents: [ … ] })`,
    );
  }
  return {
    file,
    agents: exported.agents.map((agent) => agent.withDefaultModel(options.defaultModel)),
    models: exported.models,
    // A config made by another copy of Pawl may not have it.
    embeddingModel: exported.embeddingModel ?? null,
  };
}

async function importDefault(file: string): Promise<unknown> {
  try {
    const loaded: { default?: unknown } = await import(pathToFileURL(file).href);
    const exported = await loaded.default;
    // What a CommonJS module means by its default export.
    const isWrapped = typeof exported === 'object' && exported !== null && '__esModule' in exported;
    return isWrapped && 'default' in exported ? exported.default : exported;
  } catch (thrown) {
    throw refusalOf(file, thrown);
  }
}

function refusalOf(file: string, thrown: unknown): PawlError {
  const where = placeOf(thrown, file);
  if (isPawlError(thrown)) return new PawlError(thrown.code, `${file}${where}: ${thrown.message}`, { cause: thrown });
  const message = describeThrown(thrown).replace(/^Transform failed with \d+ errors?:\n/, '');
  if (/^The package "@esbuild\//.test(message)) {
    const fix = 'run "npm rebuild esbuild", which fetches it, or write the config in JavaScript, as pawl.config.mjs';
    const why = 'what compiles TypeScript was left out of this installation, with the optional packages';
    return new PawlError('config_invalid', `${file} cannot be loaded: ${why}; ${fix}`, { cause: thrown });
  }
  const [, missing] = /^Cannot find package '([^']+)'/.exec(message) ?? [];
  const fix = missing === undefined ? '' : ` (install it there: cd ${dirname(file)} && npm install ${missing})`;
  return new PawlError('config_invalid', `${file} cannot be loaded${where}: ${message}${fix}`, { cause: thrown });
}

/** The line of the config, or of a file beside it, that threw. */
function placeOf(thrown: unknown, file: string): string {
  const stack = thrown instanceof Error && typeof thrown.stack === 'string' ? thrown.stack : '';
  const folders = [`${dirname(file)}/`, `${pathToFileURL(dirname(file)).href}/`];
  const isNear = (line: string) => folders.some((folder) => line.includes(folder)) && !line.includes('/node_modules/');
  const frames = stack.split('\n').filter((line) => line.startsWith('    at '));
  const [, name, line] = /\/([^/?]+)(?:\?[^:]*)?:(\d+):\d+\)?$/.exec(frames.find(isNear) ?? '') ?? [];
  return name === undefined ? '' : ` (${name}, line ${line})`;
}

/** Also of another copy of Pawl, which its class would not tell. */
function isPawlError(thrown: unknown): thrown is PawlError {
  return thrown instanceof Error && thrown.name === 'PawlError' && codeOf(thrown) !== null;
}

function codeOf(thrown: Error): ErrorCode | null {
  const code = 'code' in thrown ? String(thrown.code) : '';
  return Object.hasOwn(errorCodes, code) ? (code as ErrorCode) : null;
}

let hooked: Promise<void> | null = null;

/** Once per process. Running from its sources, Pawl is loaded by tsx already, and so is the config. */
function hookModules(): Promise<void> {
  hooked ??= registerHooks();
  return hooked;
}

async function registerHooks(): Promise<void> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  if (extension === 'js') (await import('tsx/esm/api')).register();
  const modules = {
    pawl: new URL(`./index.${extension}`, import.meta.url).href,
    'pawl/testing': new URL(`./testing/index.${extension}`, import.meta.url).href,
  };
  register('./config-hooks.mjs', import.meta.url, { data: { modules } });
}
