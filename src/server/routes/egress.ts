/** /v1/sandboxes/:id/egress: what passed and what did not, why, and how to tighten it while it runs. */
import { basename } from 'node:path';
import type { FastifyReply } from 'fastify';
import type { z } from 'zod';
import { ruleLine } from '../../admission/policy.ts';
import type { Explanation } from '../../egress/rules/explain.ts';
import type { Sandbox } from '../../sandbox/types.ts';
import type { App, ServerDeps } from '../deps.ts';
import { outgoingHeaders } from '../exec/answer.ts';
import { drained } from '../exec/client-gone.ts';
import { runningSandbox } from '../find-sandbox.ts';
import {
  egressQuery,
  egressSchema,
  explainQuery,
  explanationSchema,
  phaseSchema,
  tightenSchema,
} from '../schemas/egress.ts';
import { errorResponses } from '../schemas/error.ts';
import { sandboxParams } from '../schemas/ids.ts';

const tags = ['egress'];

export function egressRoutes(app: App, deps: ServerDeps): void {
  app.route({
    method: 'GET',
    url: '/v1/sandboxes/:id/egress',
    schema: {
      tags,
      summary: 'What it tried to reach, with each verdict',
      params: sandboxParams,
      querystring: egressQuery,
      response: { 200: egressSchema, ...errorResponses },
    },
    handler: async ({ params, query }, reply) => {
      const sandbox = runningSandbox(deps, params.id);
      if (query.follow !== 'true') return stateOf(sandbox, query.after);
      await follow(sandbox, query.after, reply);
      return reply;
    },
  });

  app.route({
    method: 'GET',
    url: '/v1/sandboxes/:id/egress/explain',
    schema: {
      tags,
      summary: 'What the rules say to a URL, and the narrowest change that would allow it',
      params: sandboxParams,
      querystring: explainQuery,
      response: { 200: explanationSchema, ...errorResponses },
    },
    handler: async ({ params, query }) => {
      const sandbox = runningSandbox(deps, params.id);
      return explanationOf(deps, sandbox, sandbox.explain(query.url, query.method));
    },
  });

  app.route({
    method: 'POST',
    url: '/v1/sandboxes/:id/egress/phase',
    schema: {
      tags,
      summary: 'Go on to a later phase; what it forbids is closed at once',
      params: sandboxParams,
      body: phaseSchema,
      response: { 200: egressSchema, ...errorResponses },
    },
    handler: async ({ params, body }) => {
      const sandbox = runningSandbox(deps, params.id);
      sandbox.egress.enter(body.phase);
      return stateOf(sandbox);
    },
  });

  app.route({
    method: 'POST',
    url: '/v1/sandboxes/:id/egress/tighten',
    schema: {
      tags,
      summary: 'Cut off more of what it may reach; there is no way back',
      params: sandboxParams,
      body: tightenSchema,
      response: { 200: egressSchema, ...errorResponses },
    },
    handler: async ({ params, body }) => {
      const sandbox = runningSandbox(deps, params.id);
      sandbox.tighten(body.network);
      return stateOf(sandbox);
    },
  });
}

function stateOf({ egress, stamped }: Sandbox, after?: number): z.infer<typeof egressSchema> {
  const { network } = stamped.grant;
  return {
    grantDigest: stamped.digest,
    mode: network.mode,
    phase: egress.phase ?? null,
    phases: network.mode === 'deny' ? [] : [...network.phases],
    connections: egress.flows,
    summary: egress.log.summary(),
    records: [...egress.log.read(after)],
  };
}

function explanationOf(
  { matrix }: ServerDeps,
  { stamped }: Sandbox,
  { decision, nextStep }: Explanation,
): z.infer<typeof explanationSchema> {
  const denial = decision.verdict === 'deny' ? decision : decision.wouldDeny;
  const policy = matrix?.current();
  const isSamePolicy = policy?.sha256 === stamped.grant.policySha256;
  const rule = denial?.rule ?? decision.rule;
  return {
    verdict: decision.verdict === 'deny' ? 'deny' : denial === undefined ? 'allow' : 'would-deny',
    rule,
    code: denial?.code ?? null,
    reason: denial?.reason ?? `Rule ${rule} allows it.`,
    handling: decision.verdict === 'allow' ? decision.handling : null,
    nextStep: nextStep ?? null,
    // its name only: where it lies on the host is nobody's business (HX-23)
    file: isSamePolicy ? basename(policy.source) : null,
    line: (isSamePolicy && rule !== null ? ruleLine(policy, stamped.grant.class, rule) : undefined) ?? null,
  };
}

/** Entries kept so far and those to come, a line each, until the sandbox or the reader goes. */
async function follow({ egress, ended }: Sandbox, after: number | undefined, reply: FastifyReply): Promise<void> {
  reply.hijack();
  const answer = reply.raw;
  answer.writeHead(200, { ...outgoingHeaders(reply), 'content-type': 'application/x-ndjson' });
  answer.flushHeaders();
  let last = after ?? 0;
  let wake: () => void = () => undefined;
  const stop = egress.log.follow(() => wake());
  let isOver = false;
  const finish = (): void => {
    isOver = true;
    wake();
  };
  answer.once('close', finish);
  void ended.then(finish);
  try {
    while (!answer.destroyed) {
      const more = new Promise<void>((resolve) => {
        wake = resolve;
      });
      // what a slow reader has not fetched when it falls out of the log is a gap in the sequence
      for (const record of egress.log.read(last)) {
        answer.write(`${JSON.stringify(record)}\n`);
        last = record.sequence;
      }
      await drained(answer);
      if (isOver) break;
      await more;
    }
  } finally {
    stop();
    answer.end();
  }
}
