/** Runs in every file of the `services` project: after its last test, what services.ts made is dropped and leaks fail. */
import { afterAll } from 'vitest';
import { dropAll } from './services.js';

afterAll(dropAll, 60_000);
