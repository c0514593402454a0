/** /v1/sandboxes/:id/exec: run commands, see the running ones, speak to them. */
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import type { Exec } from '../../sandbox/types.ts';
import type { App, ServerDeps } from '../deps.ts';
import { type AnswerOptions, collectExec, feed, runUnattended, streamExec } from '../exec/answer.ts';
import { encodingFor } from '../exec/encoding.ts';
import { runningSandbox } from '../find-sandbox.ts';
import type { Metrics } from '../metrics.ts';
import { errorResponses } from '../schemas/error.ts';
import {
  execAnswerSchema,
  execQuery,
  execRequestSchema,
  execSpecOf,
  killSchema,
  signalSchema,
  stdinOf,
} from '../schemas/exec.ts';
import { execParams, sandboxParams } from '../schemas/ids.ts';
import { defaultTimeouts, execBodyLimitBytes } from '../timeouts.ts';

const tags = ['execs'];
const streamed = z.string();
const execListSchema = z.object({
  execs: z.array(z.object({ id: z.string(), argv: z.array(z.string()).readonly(), startedAt: z.string() })),
});

export function execRoutes(app: App, deps: ServerDeps, metrics: Metrics): void {
  const { drainMs } = { ...defaultTimeouts, ...deps.timeouts };
  const execOf = ({ id, execId }: { readonly id: string; readonly execId: string }): Exec =>
    runningSandbox(deps, id).execById(execId);

  app.route({
    method: 'POST',
    url: '/v1/sandboxes/:id/exec',
    bodyLimit: execBodyLimitBytes,
    schema: {
      tags,
      summary: 'Run a command; Accept chooses one JSON answer, JSON lines, or a binary stream',
      params: sandboxParams,
      querystring: execQuery,
      body: execRequestSchema,
      response: {
        200: {
          description: 'How it ended, and its output',
          content: {
            'application/json': { schema: execAnswerSchema },
            'application/x-ndjson': { schema: streamed },
            'application/vnd.sallyport.exec-stream': { schema: streamed },
          },
        },
        202: z.object({ execId: z.string() }),
        ...errorResponses,
      },
    },
    handler: async ({ params, query, body, headers }, reply) => {
      const exec = runningSandbox(deps, params.id).exec(execSpecOf(body));
      metrics.countExec(exec);
      const stdin = stdinOf(body);
      if (stdin !== undefined) void feed(exec, stdin);
      if (body.background === true) return answerBackground(exec, reply);
      return answerAttached(exec, reply, headers.accept, { detach: query.detach === 'true', drainMs });
    },
  });

  app.route({
    method: 'GET',
    url: '/v1/sandboxes/:id/exec',
    schema: {
      tags,
      summary: 'The running commands',
      params: sandboxParams,
      response: { 200: execListSchema, ...errorResponses },
    },
    handler: async ({ params }) => ({ execs: [...runningSandbox(deps, params.id).execs()] }),
  });

  app.route({
    method: 'POST',
    url: '/v1/sandboxes/:id/exec/:execId/signal',
    schema: {
      tags,
      summary: 'Signal the main process of a command',
      params: execParams,
      body: signalSchema,
      response: { 204: z.undefined(), ...errorResponses },
    },
    handler: async ({ params, body }, reply) => {
      execOf(params).signal(body.signal);
      return reply.code(204).send();
    },
  });

  app.route({
    method: 'POST',
    url: '/v1/sandboxes/:id/exec/:execId/kill',
    schema: {
      tags,
      summary: 'End a command and its whole process tree',
      params: execParams,
      body: killSchema,
      response: { 204: z.undefined(), ...errorResponses },
    },
    handler: async ({ params, body }, reply) => {
      execOf(params).kill(body?.graceMs);
      return reply.code(204).send();
    },
  });
}

async function answerBackground(exec: Exec, reply: FastifyReply): Promise<FastifyReply> {
  runUnattended(exec).catch(() => undefined);
  await exec.started;
  return reply.code(202).send({ execId: exec.id });
}

async function answerAttached(
  exec: Exec,
  reply: FastifyReply,
  accept: string | undefined,
  options: AnswerOptions,
): Promise<FastifyReply> {
  const encoding = encodingFor(accept);
  if (encoding === undefined) return reply.send(await collectExec(exec, reply, options));
  // a command that cannot start is an HTTP error, so nothing is sent before it has
  await exec.started;
  await streamExec(exec, reply, encoding, options);
  return reply;
}
