/** The fake passes the suite of the real queues, or it proves nothing. */
import { MemoryQueue } from '../../src/testing/memory-queue.js';
import { queueContract } from '../contract/queue.js';

queueContract('the memory fake', async () => {
  const queue = new MemoryQueue();
  return {
    peer: async () => ({ queue, consumer: (options) => queue.consumer(options), close: async () => {} }),
    wipe: async () => queue.wipe(),
    retryFailed: async (dispatch) => queue.retryFailed(dispatch),
    close: () => queue.close(),
  };
});
