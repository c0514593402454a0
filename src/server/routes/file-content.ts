/** /v1/sandboxes/:id/files/content: bytes out of and into a sandbox, streamed both ways. */
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { SallyportError } from '../../errors/error.ts';
import type { Files } from '../../sandbox/types.ts';
import { withIdleDeadline } from '../body-deadline.ts';
import type { App, ServerDeps } from '../deps.ts';
import { attachment } from '../files/disposition.ts';
import { pathOf } from '../files/path.ts';
import { parseRange, type Range } from '../files/range.ts';
import { runningSandbox } from '../find-sandbox.ts';
import { withRawBodies } from '../raw-body.ts';
import { errorResponses } from '../schemas/error.ts';
import { pathQuery, writeQuery } from '../schemas/file.ts';
import { sandboxParams } from '../schemas/ids.ts';
import { defaultTimeouts } from '../timeouts.ts';

const tags = ['files'];
const bytesAnswer = { description: 'The bytes', content: { 'application/octet-stream': { schema: z.string() } } };

export function fileContentRoutes(app: App, deps: ServerDeps): void {
  const { uploadIdleMs } = { ...defaultTimeouts, ...deps.timeouts };

  app.route({
    method: 'GET',
    url: '/v1/sandboxes/:id/files/content',
    schema: {
      tags,
      summary: 'Read a file; takes a Range header',
      params: sandboxParams,
      querystring: pathQuery,
      response: { 200: bytesAnswer, 206: bytesAnswer, ...errorResponses },
    },
    handler: async ({ params, query, headers }, reply) => {
      const path = pathOf(query);
      const { files } = runningSandbox(deps, params.id);
      reply.header('content-type', 'application/octet-stream');
      reply.header('content-disposition', attachment(path));
      reply.header('accept-ranges', 'bytes');
      if (headers.range === undefined) return sendWhole(files, path, reply);
      return sendRange(files, path, headers.range, reply);
    },
  });

  withRawBodies(app, (scope) => {
    scope.route({
      method: 'PUT',
      url: '/v1/sandboxes/:id/files/content',
      config: { streamsBody: true },
      schema: {
        tags,
        summary: 'Write a file; it appears whole or not at all',
        params: sandboxParams,
        querystring: writeQuery,
        response: { 204: z.undefined(), ...errorResponses },
      },
      handler: async ({ params, query, raw }, reply) => {
        const { mode, parents } = query;
        const options = {
          ...(mode === undefined ? {} : { mode: Number.parseInt(mode, 8) }),
          ...(parents === undefined ? {} : { makeParents: parents === 'true' }),
        };
        const { files } = runningSandbox(deps, params.id);
        await files.write(pathOf(query), withIdleDeadline(raw, uploadIdleMs), options);
        return reply.code(204).send();
      },
    });
  });
}

/** The first chunk is read before the answer begins, so that a file that cannot be read is an error and no broken answer. */
async function sendWhole(files: Files, path: Buffer, reply: FastifyReply): Promise<FastifyReply> {
  const chunks = files.read(path)[Symbol.asyncIterator]();
  const first = await chunks.next();
  if (first.done === true) return reply.send(Buffer.alloc(0));
  const second = await chunks.next();
  if (second.done === true) return reply.send(first.value);
  return reply.send(Readable.from(resumed([first.value, second.value], chunks), { objectMode: false }));
}

async function* resumed(read: readonly Buffer[], chunks: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* read;
    for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) yield next.value;
  } finally {
    await chunks.return?.();
  }
}

async function sendRange(files: Files, path: Buffer, header: string, reply: FastifyReply): Promise<FastifyReply> {
  const entry = await files.stat(path);
  // stat shows a symlink itself, whose size is not that of the content
  const range: Range = entry.kind === 'file' ? parseRange(header, entry.bytes) : { kind: 'whole' };
  if (range.kind === 'whole') return sendWhole(files, path, reply);
  if (range.kind === 'unsatisfiable') {
    const error = new SallyportError('invalid_request', `Cannot send ${header}: the file has ${entry.bytes} bytes`);
    reply.removeHeader('content-disposition');
    return reply
      .code(416)
      .type('application/json')
      .header('content-range', `bytes */${entry.bytes}`)
      .send(error.toJSON());
  }
  const { offset, length } = range;
  reply.code(206).header('content-range', `bytes ${offset}-${offset + length - 1}/${entry.bytes}`);
  reply.header('content-length', length);
  return reply.send(Readable.from(exactly(files.read(path, { offset, length }), length), { objectMode: false }));
}

/** A file that shrank meanwhile breaks the connection instead of passing for whole. */
async function* exactly(chunks: AsyncIterable<Buffer>, length: number): AsyncGenerator<Buffer> {
  let left = length;
  for await (const chunk of chunks) {
    left -= chunk.length;
    yield chunk;
  }
  if (left !== 0) throw new SallyportError('file_conflict', 'Cannot send the range: the file changed meanwhile');
}
