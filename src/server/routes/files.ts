/** /v1/sandboxes/:id/files: names, kinds and changes; done inside as the sandbox's user. */
import { z } from 'zod';
import type { Files } from '../../sandbox/types.ts';
import type { App, ServerDeps } from '../deps.ts';
import { pathOf, targetOf } from '../files/path.ts';
import { runningSandbox } from '../find-sandbox.ts';
import { errorResponses } from '../schemas/error.ts';
import {
  chmodSchema,
  chownSchema,
  fileEntryOf,
  fileEntrySchema,
  fileListSchema,
  listQuery,
  mkdirSchema,
  pathQuery,
  removeSchema,
  renameSchema,
} from '../schemas/file.ts';
import { sandboxParams } from '../schemas/ids.ts';
import { withoutUndefined } from '../without-undefined.ts';

const tags = ['files'];
const params = sandboxParams;
const changed = { 204: z.undefined(), ...errorResponses };

export function fileRoutes(app: App, deps: ServerDeps): void {
  const filesOf = ({ id }: { readonly id: string }): Files => runningSandbox(deps, id).files;

  app.route({
    method: 'GET',
    url: '/v1/sandboxes/:id/files',
    schema: {
      tags,
      summary: 'List a folder; paths are relative to it',
      params,
      querystring: listQuery,
      response: { 200: fileListSchema, ...errorResponses },
    },
    handler: async (request) => {
      const { depth, max } = request.query;
      const list = await filesOf(request.params).list(pathOf(request.query), withoutUndefined({ depth, max }));
      return { entries: list.entries.map(fileEntryOf), truncated: list.truncated };
    },
  });

  app.route({
    method: 'GET',
    url: '/v1/sandboxes/:id/files/stat',
    schema: {
      tags,
      summary: 'One entry; a symbolic link is shown, not followed',
      params,
      querystring: pathQuery,
      response: { 200: fileEntrySchema, ...errorResponses },
    },
    handler: async (request) => fileEntryOf(await filesOf(request.params).stat(pathOf(request.query))),
  });

  app.route({
    method: 'POST',
    url: '/v1/sandboxes/:id/files/mkdir',
    schema: { tags, summary: 'Make a folder', params, body: mkdirSchema, response: changed },
    handler: async (request, reply) => {
      const { mode, parents: makeParents } = request.body;
      const path = pathOf(request.body);
      await filesOf(request.params).change({ op: 'mkdir', path, ...withoutUndefined({ mode, makeParents }) });
      return reply.code(204).send();
    },
  });

  app.route({
    method: 'POST',
    url: '/v1/sandboxes/:id/files/rename',
    schema: { tags, summary: 'Rename or move', params, body: renameSchema, response: changed },
    handler: async (request, reply) => {
      const [path, to] = [pathOf(request.body), targetOf(request.body)];
      await filesOf(request.params).change({ op: 'rename', path, to });
      return reply.code(204).send();
    },
  });

  app.route({
    method: 'POST',
    url: '/v1/sandboxes/:id/files/remove',
    schema: { tags, summary: 'Remove', params, body: removeSchema, response: changed },
    handler: async (request, reply) => {
      const recursive = request.body.recursive === true;
      await filesOf(request.params).change({ op: 'remove', path: pathOf(request.body), recursive });
      return reply.code(204).send();
    },
  });

  app.route({
    method: 'POST',
    url: '/v1/sandboxes/:id/files/chmod',
    schema: { tags, summary: 'Change the mode', params, body: chmodSchema, response: changed },
    handler: async (request, reply) => {
      const { mode } = request.body;
      await filesOf(request.params).change({ op: 'chmod', path: pathOf(request.body), mode });
      return reply.code(204).send();
    },
  });

  app.route({
    method: 'POST',
    url: '/v1/sandboxes/:id/files/chown',
    schema: { tags, summary: 'Change the owner', params, body: chownSchema, response: changed },
    handler: async (request, reply) => {
      const { uid, gid } = request.body;
      await filesOf(request.params).change({ op: 'chown', path: pathOf(request.body), uid, gid });
      return reply.code(204).send();
    },
  });
}
