/** /v1/sandboxes: create, list, look at, end. */
import { z } from 'zod';
import { requestSchema } from '../../admission/request-schema.ts';
import type { App, ServerDeps } from '../deps.ts';
import { runningSandbox, sandboxInfo } from '../find-sandbox.ts';
import type { Metrics } from '../metrics.ts';
import { errorResponses } from '../schemas/error.ts';
import { sandboxParams } from '../schemas/ids.ts';
import { metadataSchema, sandboxInfoSchema, usageSchema } from '../schemas/sandbox.ts';

const tags = ['sandboxes'];
const createSchema = requestSchema.extend({ metadata: metadataSchema.optional() });
const listQuery = z.strictObject({ ended: z.enum(['true', 'false']).optional() });

export function sandboxRoutes(app: App, deps: ServerDeps, metrics: Metrics): void {
  app.route({
    method: 'POST',
    url: '/v1/sandboxes',
    schema: {
      tags,
      summary: 'Create a sandbox',
      body: createSchema,
      response: { 201: sandboxInfoSchema, ...errorResponses },
    },
    handler: async ({ body }, reply) => {
      const { metadata = {}, ...request } = body;
      const sandbox = await deps.sandboxes.create({ request, metadata });
      metrics.countSandbox(sandbox);
      return reply.code(201).header('location', `/v1/sandboxes/${sandbox.id}`).send(sandbox.info());
    },
  });

  app.route({
    method: 'GET',
    url: '/v1/sandboxes',
    schema: {
      tags,
      summary: 'List the sandboxes, newest first',
      querystring: listQuery,
      response: { 200: z.object({ sandboxes: z.array(sandboxInfoSchema) }), ...errorResponses },
    },
    handler: async ({ query }) => ({ sandboxes: deps.sandboxes.list({ ended: query.ended === 'true' }) }),
  });

  app.route({
    method: 'GET',
    url: '/v1/sandboxes/:id',
    schema: {
      tags,
      summary: 'One sandbox, running or ended',
      params: sandboxParams,
      response: { 200: sandboxInfoSchema, ...errorResponses },
    },
    handler: async ({ params }) => sandboxInfo(deps, params.id),
  });

  app.route({
    method: 'DELETE',
    url: '/v1/sandboxes/:id',
    schema: {
      tags,
      summary: 'End a sandbox; answers when nothing of it is left',
      params: sandboxParams,
      response: { 200: sandboxInfoSchema, ...errorResponses },
    },
    handler: async ({ params }) => {
      const sandbox = runningSandbox(deps, params.id);
      await sandbox.end('killed');
      return sandbox.info();
    },
  });

  app.route({
    method: 'GET',
    url: '/v1/sandboxes/:id/stats',
    schema: {
      tags,
      summary: 'What it uses now',
      params: sandboxParams,
      response: { 200: usageSchema, ...errorResponses },
    },
    handler: async ({ params }) => runningSandbox(deps, params.id).stats(),
  });
}
