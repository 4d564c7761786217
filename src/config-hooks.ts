/**
 * Module hooks for a user's pawl.config.ts and what it imports; they run in Node's loader thread. `pawl` is always the copy
 * that runs, wherever the config lies and whatever is installed beside it, and `zod` is that copy's where there is no other.
 * Next: config-file.ts, which registers them.
 */
import { readFileSync } from 'node:fs';
import type { InitializeHook, ResolveHook } from 'node:module';

/** URLs of Pawl's own modules by the name users import them by. */
export interface HookData {
  modules: Record<string, string>;
}

let modules: Record<string, string> = {};

export const initialize: InitializeHook<HookData> = (data) => {
  modules = data.modules;
};

export const resolve: ResolveHook = async (specifier, context, nextResolve) => {
  if (Object.hasOwn(modules, specifier)) return { url: modules[specifier] ?? '', format: 'module', shortCircuit: true };
  const resolved = await resolveOrLend(specifier, context, nextResolve);
  return isModule(resolved.url) ? { ...resolved, format: 'module' } : resolved;
};

/** In a folder without "type": "module" a user's file would be loaded as CommonJS, which cannot import Pawl. */
function isModule(url: string): boolean {
  const [, extension] = /^file:.*\.(tsx?|js)(?:\?.*)?$/.exec(url) ?? [];
  if (extension === undefined || url.includes('/node_modules/')) return false;
  return extension !== 'js' || /^\s*(import|export)\b/m.test(readFileSync(new URL(url), 'utf8'));
}

const resolveOrLend: ResolveHook = async (specifier, context, nextResolve) => {
  try {
    return await nextResolve(specifier, context);
  } catch (thrown) {
    if (specifier !== 'zod' && !specifier.startsWith('zod/')) throw thrown;
    return nextResolve(specifier, { ...context, parentURL: modules.pawl });
  }
};
