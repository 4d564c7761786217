/** The one hash of identities: a change of it changes keys that tools have already seen. */
import { hash as digest } from 'node:crypto';

/** SHA-256 of a list, in hex; the list's JSON keeps its parts apart. */
export function hash(parts: readonly unknown[]): string {
  return digest('sha256', JSON.stringify(parts), 'hex');
}
