/** /v1/runs: the records of runs that this daemon's store keeps. */
import { z } from 'zod';
import { SallyportError } from '../../errors/error.ts';
import type { App, ServerDeps } from '../deps.ts';
import { errorResponses } from '../schemas/error.ts';
import { runParams } from '../schemas/ids.ts';

const tags = ['runs'];
/** The record is described in docs; here it is passed on as it was written. */
const recordSchema = z.looseObject({ version: z.number(), runId: z.string(), outcome: z.string() });
const listQuery = z.strictObject({
  limit: z
    .string()
    .regex(/^[1-9][0-9]{0,2}$/)
    .transform(Number)
    .optional(),
});

export function runRoutes(app: App, deps: ServerDeps): void {
  app.route({
    method: 'GET',
    url: '/v1/runs',
    schema: {
      tags,
      summary: 'The latest runs, newest first',
      querystring: listQuery,
      response: { 200: z.object({ runs: z.array(recordSchema) }), ...errorResponses },
    },
    handler: async ({ query }) => {
      const runs = deps.store.runs.list(query.limit === undefined ? {} : { limit: query.limit });
      return { runs: runs.map((record) => ({ ...record })) };
    },
  });

  app.route({
    method: 'GET',
    url: '/v1/runs/:id',
    schema: {
      tags,
      summary: 'The record of one run',
      params: runParams,
      response: { 200: recordSchema, ...errorResponses },
    },
    handler: async ({ params }) => {
      const record = deps.store.runs.get(params.id);
      if (record === undefined) throw new SallyportError('run_not_found', `Cannot find run ${params.id}`);
      return { ...record };
    },
  });
}
