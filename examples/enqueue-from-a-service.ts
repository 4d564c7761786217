/**
 * Another service starts runs and tells what became of them; workers elsewhere carry them. Here a small HTTP service takes
 * texts to tag, from callers that may send each text more than once: its id is the key, so there is one run for it.
 *
 *   DATABASE_URL=postgres://… PORT=8080 npx tsx examples/enqueue-from-a-service.ts
 *   curl -d '{"id":"doc-1","text":"Paper prices fell again."}' http://127.0.0.1:8080
 *   curl http://127.0.0.1:8080/run_…
 */
import { createServer, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { createPawl, PawlError } from 'pawl';
import { z } from 'zod';

// The same two settings as the workers'. It needs no copy of the agents: workers register them in the database.
const pawl = createPawl({ databaseUrl: process.env.DATABASE_URL ?? '', redisUrl: process.env.REDIS_URL });
const document = z.object({ id: z.string().min(1).max(200), text: z.string().min(1) });
const statuses = new Map<string, number>([
  ['not_found', 404],
  ['key_conflict', 409],
  ['database_unreachable', 503],
]);

async function answer(request: IncomingMessage): Promise<[number, unknown]> {
  if (request.method === 'POST') {
    const { id: key, text: input } = document.parse(JSON.parse(await text(request)));
    const { id, created } = await pawl.runs.start({ agent: 'tagger', input, key, tags: { from: 'example' } });
    return [created ? 202 : 200, { id, created }];
  }
  const { status, reason, output } = await pawl.runs.get((request.url ?? '').slice(1));
  return [status === 'completed' ? 200 : 202, { status, reason, output }];
}

const server = createServer((request, response) => {
  answer(request)
    .catch((error: unknown): [number, unknown] => {
      const code = error instanceof PawlError ? error.code : 'bad_request';
      return [statuses.get(code) ?? 400, { code, message: String(error) }];
    })
    .then(([status, body]) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
});
server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () => {
  console.error('taking texts at', server.address());
});
process.once('SIGTERM', () => server.close(() => void pawl.close()));
