/** The delays BullMQ is given, whatever error asks for them. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { backoff, RetryLater, readJob } from '../../src/bullmq/job.js';

describe('the delay of a retry', () => {
  it('is the one the error asks for, in whole milliseconds and never 0', () => {
    expect(backoff(1, 'pawl', new RetryLater(1_234.4, 'rate limited'))).toBe(1_234);
    expect(backoff(1, 'pawl', new RetryLater(0, ''))).toBe(1);
  });

  it('is a positive number of at most a week for any error', () => {
    const errors = fc.oneof(
      fc.double().map((delayMs) => new RetryLater(delayMs, '')),
      fc.constantFrom(undefined, new Error('other'), Object.assign(new Error(''), { delayMs: -1 })),
    );
    fc.assert(
      fc.property(errors, (error) => {
        const delay = backoff(1, 'pawl', error);
        return Number.isInteger(delay) && delay >= 1 && delay <= 7 * 24 * 3_600_000;
      }),
    );
  });
});

describe('reading a job', () => {
  it('never throws, and gives a delivery only for ids that make up the job id', () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.anything(),
        (id, data) => 'malformed' in readJob('llm', { id, data, attemptsMade: 0 }),
      ),
    );
    const data = { runId: 'run_1', seq: 2, dispatch: 3 };
    expect(readJob('llm', { id: 'run_1.2.3', data, attemptsMade: 4 })).toEqual({
      delivery: { ...data, queue: 'llm', attemptsMade: 4 },
    });
  });
});
