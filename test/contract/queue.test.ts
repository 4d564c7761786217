/** The queue's contract on each backend found. The fake's run is in test/unit, since it needs no service. */

import { openWorld } from '../bullmq/worlds.js';
import { queueBackends } from '../support/services.js';
import { queueContract } from './queue.js';

for (const kind of queueBackends()) queueContract(kind, () => openWorld(kind));
