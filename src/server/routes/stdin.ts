/** /v1/sandboxes/:id/exec/:execId/stdin: the body of the request, as it comes, is the standard input. */
import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import type { Exec } from '../../sandbox/types.ts';
import type { App, ServerDeps } from '../deps.ts';
import { runningSandbox } from '../find-sandbox.ts';
import { withRawBodies } from '../raw-body.ts';
import { errorResponses } from '../schemas/error.ts';
import { execParams } from '../schemas/ids.ts';

const stdinQuery = z.strictObject({
  keepOpen: z.enum(['true', 'false']).optional().describe('true: the end of this body is not the end of the input.'),
});
const stdinAnswer = z.object({
  bytes: z.number().describe('Bytes that were passed on.'),
  ended: z.boolean().describe('The command ended before it had all of them.'),
});

export function stdinRoutes(app: App, deps: ServerDeps): void {
  withRawBodies(app, (scope) => {
    scope.route({
      method: 'POST',
      url: '/v1/sandboxes/:id/exec/:execId/stdin',
      config: { streamsBody: true },
      schema: {
        tags: ['execs'],
        summary: 'Write to the standard input of a command that was started with openStdin',
        params: execParams,
        querystring: stdinQuery,
        response: { 200: stdinAnswer, ...errorResponses },
      },
      handler: async (request, reply) => {
        const { id, execId } = request.params;
        const exec = runningSandbox(deps, id).execById(execId);
        const answer = await passOn(request.raw, exec, request.query.keepOpen === 'true');
        // what is left of the body has no reader: the connection cannot be used again
        if (answer.ended) reply.header('connection', 'close');
        return answer;
      },
    });
  });
}

interface StdinAnswer {
  readonly bytes: number;
  readonly ended: boolean;
}

/** Ends with the body or with the command, whichever is first. */
function passOn(body: IncomingMessage, exec: Exec, keepOpen: boolean): Promise<StdinAnswer> {
  let bytes = 0;
  const ended = (): StdinAnswer => ({ bytes, ended: true });
  const pump = async (): Promise<StdinAnswer> => {
    // destroyOnReturn: false, or leaving the loop would cut the connection that the answer needs
    for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      await exec.write(chunk);
      bytes += chunk.length;
    }
    if (!keepOpen) exec.endStdin();
    return { bytes, ended: false };
  };
  return Promise.race([
    pump().catch((thrown) => exec.result.then(ended, () => Promise.reject(thrown))),
    exec.result.then(ended, ended),
  ]);
}
