/**
 * One clock for all processes of a campaign: the kernel's monotonic one, given a zero in 1970 by the supervisor. A process
 * whose `Date` is wrong on purpose, and one that was stopped for a minute, read the same as everybody.
 */

/** What must be added to the monotonic clock to read milliseconds since 1970. */
export type Epoch = number;

const monotonicMs = () => Number(process.hrtime.bigint() / 1_000n) / 1_000;

export function openEpoch(): Epoch {
  return Date.now() - monotonicMs();
}

export function clockOf(epoch: Epoch): () => number {
  return () => Math.round((epoch + monotonicMs()) * 10) / 10;
}
