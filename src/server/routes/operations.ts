/** What operators and their tools ask of the daemon: is it there, what does it count, what can it do. */
import { z } from 'zod';
import type { App, ServerDeps } from '../deps.ts';
import type { Metrics } from '../metrics.ts';

export function operationRoutes(app: App, deps: ServerDeps, metrics: Metrics): void {
  app.route({
    method: 'GET',
    url: '/healthz',
    config: { isPublic: true },
    schema: {
      tags: ['operations'],
      summary: 'The daemon answers',
      response: { 200: z.object({ status: z.literal('ok') }) },
    },
    handler: async () => ({ status: 'ok' as const }),
  });

  app.route({
    method: 'GET',
    url: '/openapi.json',
    config: { isPublic: true },
    schema: { hide: true },
    handler: async () => app.swagger(),
  });

  app.route({
    method: 'GET',
    url: '/v1/metrics',
    schema: {
      tags: ['operations'],
      summary: 'Counters in Prometheus text',
      response: { 200: { description: 'Samples', content: { 'text/plain': { schema: z.string() } } } },
    },
    handler: async (_request, reply) =>
      reply.type('text/plain; version=0.0.4; charset=utf-8').send(metrics.render(deps.sandboxes)),
  });
}
