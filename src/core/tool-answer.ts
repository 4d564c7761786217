/**
 * Two things a tool can say that no ordinary result or error can: that the caller may not do this, and that it did nothing
 * at all. Either may be returned or thrown. Known by a symbol of the registry, so that a second copy of Pawl understands them.
 */

export type ToolMark = 'permission_denied' | 'not_started';

const mark = Symbol.for('pawl.toolMark');

class MarkedAnswer extends Error {
  readonly [mark]: ToolMark;
  constructor(kind: ToolMark, message: string) {
    super(message);
    this.name = kind === 'permission_denied' ? 'PermissionDenied' : 'NotStarted';
    this[mark] = kind;
  }
}

/** The call is not allowed, and will not be if repeated: the model hears it at once, no attempt follows. */
export function permissionDenied(message = ''): Error {
  return new MarkedAnswer('permission_denied', message);
}

/** The tool vouches that nothing happened: even a `once` call may be tried again, or be reported as failed. */
export function notStarted(message = ''): Error {
  return new MarkedAnswer('not_started', message);
}

/** Reads what a tool returned or threw; null for anything but the two. Never throws. */
export function readToolMark(value: unknown): { kind: ToolMark; message: string } | null {
  try {
    if (typeof value !== 'object' || value === null) return null;
    const kind = (value as { [mark]?: unknown })[mark];
    if (kind !== 'permission_denied' && kind !== 'not_started') return null;
    const message: unknown = (value as { message?: unknown }).message;
    return { kind, message: typeof message === 'string' ? message : '' };
  } catch {
    return null;
  }
}
