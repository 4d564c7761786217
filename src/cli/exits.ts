/**
 * What a command's exit status means, and how each end of a run and each error becomes one. The codes of errors stand in
 * core/errors.ts; these are the documented ones that are not errors.
 */
import { errorCodes, PawlError } from '../core/errors.js';
import type { RunStatus } from '../core/run.js';

export const exits = {
  ok: 0,
  error: 1,
  usage: 2,
  runFailed: 3,
  runCancelled: 4,
  runSuspended: 5,
  interrupted: 130,
} as const;

/** Thrown when the person at the terminal, or a SIGTERM, ended the command. */
export class Interrupted extends Error {}

export function exitOfRun(status: RunStatus): number {
  switch (status) {
    case 'failed':
      return exits.runFailed;
    case 'cancelled':
      return exits.runCancelled;
    case 'suspended':
      return exits.runSuspended;
    case 'pending':
    case 'running':
    case 'completed':
      return exits.ok;
  }
}

export function exitOfError(error: unknown): number {
  if (error instanceof Interrupted) return exits.interrupted;
  return error instanceof PawlError ? errorCodes[error.code].exit : exits.error;
}
