/**
 * The one error class and its closed list of codes. Only faults and bad input are thrown; what a step produced is an
 * outcome, a value (see outcome.ts). Each code's exit status stands beside it; docs/errors.md lists the same codes.
 */

export const errorCodes = {
  usage: { exit: 2, means: 'a flag, an argument or a value is not what the command takes' },
  config_invalid: { exit: 2, means: 'the environment or pawl.config.ts holds a value that cannot be used' },
  not_built: { exit: 2, means: 'the option is part of the documented surface but not built in this version' },
  unknown_agent: { exit: 6, means: 'no worker has ever registered an agent of that name' },
  invalid_input: { exit: 2, means: 'the input of a run or of a command is malformed' },
  not_found: { exit: 6, means: 'no such run, step or agent' },
  conflict: { exit: 7, means: 'the row is not in a state that allows this' },
  key_conflict: { exit: 7, means: 'the key was used before with another input' },
  database_unreachable: { exit: 8, means: 'Postgres does not answer' },
  queue_unreachable: { exit: 8, means: 'the queue does not answer' },
  schema_mismatch: { exit: 1, means: 'the database was migrated by other code than this' },
  internal: { exit: 1, means: 'a bug in Pawl' },
} as const satisfies Record<string, { exit: number; means: string }>;

export type ErrorCode = keyof typeof errorCodes;

export class PawlError extends Error {
  override readonly name = 'PawlError';
  constructor(
    readonly code: ErrorCode,
    message: string,
    options: { cause?: unknown } = {},
  ) {
    super(message, options);
  }
}

/** Reads a thrown value of any shape as one line of text; never throws itself, whatever was thrown. */
export function describeThrown(thrown: unknown): string {
  try {
    if (thrown instanceof Error) return String(thrown.message === '' ? thrown.name : thrown.message);
    if (typeof thrown === 'string') return thrown;
    if (thrown === undefined) return 'threw undefined';
    return JSON.stringify(thrown) ?? String(thrown);
  } catch {
    return `threw an unprintable ${typeof thrown}`;
  }
}
