/** /v1/matrix: the permission matrix that this daemon decides by. */
import { z } from 'zod';
import { matrixJson } from '../../admission/matrix.ts';
import { SallyportError } from '../../errors/error.ts';
import type { App, ServerDeps } from '../deps.ts';
import { errorResponses } from '../schemas/error.ts';

export function matrixRoutes(app: App, deps: ServerDeps): void {
  app.route({
    method: 'GET',
    url: '/v1/matrix',
    schema: { tags: ['policy'], summary: 'The permission matrix', response: { 200: z.unknown(), ...errorResponses } },
    handler: async () => {
      if (deps.policy === undefined) throw new SallyportError('policy_unreadable', 'The daemon has no policy to show');
      return matrixJson(deps.policy);
    },
  });
}
