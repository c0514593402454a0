/** /v1/sandboxes/:id/log: the captured head of all output. */
import type { App, ServerDeps } from '../deps.ts';
import { runningSandbox } from '../find-sandbox.ts';
import { errorResponses } from '../schemas/error.ts';
import { sandboxParams } from '../schemas/ids.ts';
import { logSchema } from '../schemas/log.ts';

export function logRoutes(app: App, deps: ServerDeps): void {
  app.route({
    method: 'GET',
    url: '/v1/sandboxes/:id/log',
    schema: {
      tags: ['sandboxes'],
      summary: 'The head of the output of all its commands',
      params: sandboxParams,
      response: { 200: logSchema, ...errorResponses },
    },
    handler: async ({ params }) => {
      const { chunks, omittedBytes } = runningSandbox(deps, params.id).log();
      return {
        chunks: chunks.map(({ channel, data }) => ({ channel, base64: data.toString('base64') })),
        omittedBytes,
      };
    },
  });
}
