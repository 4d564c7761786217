/**
 * Module hooks for a user's pawl.config.ts and what it imports; they run in Node's loader thread. `pawl` is always the copy
 * that runs, wherever the config lies and whatever is installed beside it, and `zod` is that copy's where there is no other.
 * Plain JavaScript, since that thread starts without what runs the sources. Next: config-file.ts, which registers them.
 */
import { readFileSync } from 'node:fs';

/**
 * URLs of Pawl's own modules by the name users import them by.
 * @type {Record<string, string>}
 */
let modules = {};

/** @type {import('node:module').InitializeHook<{ modules: Record<string, string> }>} */
export const initialize = (data) => {
  modules = data.modules;
};

/** @type {import('node:module').ResolveHook} */
export const resolve = async (specifier, context, nextResolve) => {
  if (Object.hasOwn(modules, specifier)) return { url: modules[specifier] ?? '', format: 'module', shortCircuit: true };
  const resolved = await resolveOrLend(specifier, context, nextResolve);
  return isModule(resolved.url) ? { ...resolved, format: 'module' } : resolved;
};

/**
 * In a folder without "type": "module" a user's file would be loaded as CommonJS, which cannot import Pawl.
 * @param {string} url
 */
function isModule(url) {
  const [, extension] = /^file:.*\.(tsx?|js)(?:\?.*)?$/.exec(url) ?? [];
  if (extension === undefined || url.includes('/node_modules/')) return false;
  return extension !== 'js' || /^\s*(import|export)\b/m.test(readFileSync(new URL(url), 'utf8'));
}

/** @type {import('node:module').ResolveHook} */
const resolveOrLend = async (specifier, context, nextResolve) => {
  try {
    return await nextResolve(specifier, context);
  } catch (thrown) {
    if (specifier !== 'zod' && !specifier.startsWith('zod/')) throw thrown;
    return nextResolve(specifier, { ...context, parentURL: modules.pawl });
  }
};
