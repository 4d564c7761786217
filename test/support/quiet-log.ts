/** A log that nobody reads. */
import type { Log } from '../../src/ports.js';

export const quietLog: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => quietLog };
