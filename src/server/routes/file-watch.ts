/** /v1/sandboxes/:id/files/watch: changes below a folder, one JSON line each, until the client goes away. */
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import type { WatchEvent } from '../../sandbox/types.ts';
import type { App, ServerDeps } from '../deps.ts';
import { reportError } from '../error-answer.ts';
import { outgoingHeaders } from '../exec/answer.ts';
import { drained } from '../exec/client-gone.ts';
import { pathOf } from '../files/path.ts';
import { runningSandbox } from '../find-sandbox.ts';
import { errorResponses } from '../schemas/error.ts';
import { watchLineOf, watchQuery } from '../schemas/file.ts';
import { sandboxParams } from '../schemas/ids.ts';

/** A watch that fails does so at once; after this long the answer begins, though nothing has changed yet. */
const settleMs = 100;

export function fileWatchRoutes(app: App, deps: ServerDeps): void {
  app.route({
    method: 'GET',
    url: '/v1/sandboxes/:id/files/watch',
    schema: {
      tags: ['files'],
      summary: 'Changes below a folder, as JSON lines',
      params: sandboxParams,
      querystring: watchQuery,
      response: {
        200: { description: 'One event a line', content: { 'application/x-ndjson': { schema: z.string() } } },
        ...errorResponses,
      },
    },
    handler: async ({ params, query }, reply) => {
      const { files } = runningSandbox(deps, params.id);
      const path = pathOf(query);
      const gone = new AbortController();
      reply.raw.once('close', () => gone.abort());
      const recursive = query.recursive === 'true';
      const events = files.watch(path, { recursive, signal: gone.signal })[Symbol.asyncIterator]();
      const first = events.next();
      await settled(first);
      await sendEvents(first, events, reply);
      return reply;
    },
  });
}

/** @throws what the promise throws within the time */
async function settled(promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, settleMs);
  });
  try {
    await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function sendEvents(
  first: Promise<IteratorResult<WatchEvent>>,
  events: AsyncIterator<WatchEvent>,
  reply: FastifyReply,
): Promise<void> {
  reply.hijack();
  const answer = reply.raw;
  answer.writeHead(200, { ...outgoingHeaders(reply), 'content-type': 'application/x-ndjson' });
  answer.flushHeaders();
  try {
    for (let next = await first; next.done !== true && !answer.destroyed; next = await events.next()) {
      answer.write(watchLineOf(next.value));
      await drained(answer);
    }
  } catch (thrown) {
    answer.write(`${JSON.stringify({ kind: 'error', error: reportError(thrown, reply.request).body })}\n`);
  } finally {
    answer.end();
    await events.return?.();
  }
}
