// Loaded into each measurement: Pawl is measured as it is installed, compiled by tsc, and so are its peers, which come from npm.
// What tsx makes of the sources keeps a name for every function that is made, and costs a step a fifth more.
import { register } from 'node:module';
import { isMainThread } from 'node:worker_threads';

const sources = new URL('../src/', import.meta.url).href;
const compiled = new URL('../dist/', import.meta.url).href;

// Node's loader thread loads this file for the hook below.
if (isMainThread) register(import.meta.url);

/** @type {import('node:module').ResolveHook} */
export const resolve = async (specifier, context, nextResolve) => {
  const found = await nextResolve(specifier, context);
  if (!found.url.startsWith(sources) || !found.url.endsWith('.ts')) return found;
  const url = compiled + found.url.slice(sources.length).replace(/ts$/, 'js');
  return { url, format: 'module', shortCircuit: true };
};
