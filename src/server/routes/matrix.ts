/** /v1/matrix: the permission matrix that this daemon decides by, and the moment when it reads it again. */
import { z } from 'zod';
import { matrixJson } from '../../admission/matrix.ts';
import { SallyportError } from '../../errors/error.ts';
import type { App, LiveMatrix, ServerDeps } from '../deps.ts';
import { errorResponses } from '../schemas/error.ts';

const reloadSchema = z.object({
  sha256: z.string().describe('Of the policy file that binds now.'),
  sandboxes: z.number().describe('Running sandboxes whose network it was laid over.'),
});

export function matrixRoutes(app: App, deps: ServerDeps): void {
  app.route({
    method: 'GET',
    url: '/v1/matrix',
    schema: { tags: ['policy'], summary: 'The permission matrix', response: { 200: z.unknown(), ...errorResponses } },
    handler: async () => matrixJson(matrixOf(deps).current()),
  });

  app.route({
    method: 'POST',
    url: '/v1/matrix/reload',
    schema: {
      tags: ['policy'],
      summary: 'Read the policy file again; one that is invalid changes nothing',
      response: { 200: reloadSchema, ...errorResponses },
    },
    handler: async () => matrixOf(deps).reload(),
  });
}

function matrixOf({ matrix }: ServerDeps): LiveMatrix {
  if (matrix === undefined) throw new SallyportError('policy_unreadable', 'The daemon has no policy to show');
  return matrix;
}
