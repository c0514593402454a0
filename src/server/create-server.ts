/**
 * The HTTP server: who may speak (host-check, authentication), how bodies are read, how errors are told, and the
 * routes. It owns nothing of what it serves. No request body is ever decompressed (RX-22).
 */
import swagger from '@fastify/swagger';
import websocket from '@fastify/websocket';
import Fastify, { type FastifyReply, type FastifyRequest, LogController } from 'fastify';
import { jsonSchemaTransform, validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod';
import { SallyportError } from '../errors/error.ts';
import { chooseProtocol, createAuthentication } from './authentication.ts';
import { limitBodyTime } from './body-deadline.ts';
import type { App, ServerDeps } from './deps.ts';
import { errorAnswer, reportError } from './error-answer.ts';
import { createHostCheck } from './host-check.ts';
import { Metrics } from './metrics.ts';
import { parseQueryString } from './query-string.ts';
import { egressRoutes } from './routes/egress.ts';
import { execRoutes } from './routes/execs.ts';
import { fileContentRoutes } from './routes/file-content.ts';
import { fileWatchRoutes } from './routes/file-watch.ts';
import { fileRoutes } from './routes/files.ts';
import { logRoutes } from './routes/log.ts';
import { matrixRoutes } from './routes/matrix.ts';
import { operationRoutes } from './routes/operations.ts';
import { ptyRoutes } from './routes/pty.ts';
import { runRoutes } from './routes/runs.ts';
import { sandboxRoutes } from './routes/sandboxes.ts';
import { stdinRoutes } from './routes/stdin.ts';
import { defaultTimeouts, jsonBodyLimitBytes, maxConnections, type Timeouts } from './timeouts.ts';

/** Long ids must reach the schema that refuses them (HX-03), not vanish in the router. */
const maxParamLength = 16 * 1024;
/** A WebSocket message; a terminal's input is small. */
const maxMessageBytes = 1024 * 1024;

/** The server, with its routes, not yet listening. */
export function createServer(deps: ServerDeps): App {
  const timeouts = { ...defaultTimeouts, ...deps.timeouts };
  const app = bareServer(deps, timeouts);
  app.register(swagger, { openapi: openapi(), transform: jsonSchemaTransform });
  app.register(websocket, {
    options: { maxPayload: maxMessageBytes, perMessageDeflate: false, handleProtocols: chooseProtocol },
  });
  // after the plugin: its hook must have seen an upgrade that ours refuses, or nobody closes that socket
  app.after(() => useChecks(app, deps, timeouts));
  useErrors(app);
  app.register(async (scope: App) => useRoutes(scope, deps));
  return app;
}

function bareServer(deps: ServerDeps, timeouts: Timeouts): App {
  const app = Fastify({
    loggerInstance: deps.log,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: jsonBodyLimitBytes,
    keepAliveTimeout: timeouts.keepAliveMs,
    // bodies have their own deadlines: some are streamed for as long as a command runs
    requestTimeout: 0,
    http: { headersTimeout: timeouts.headersMs, connectionsCheckingInterval: Math.min(timeouts.headersMs, 5_000) },
    return503OnClosing: false,
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength, querystringParser: parseQueryString as (text: string) => Record<string, unknown> },
    frameworkErrors: (error, request, reply: FastifyReply) => {
      const { status, body } = errorAnswer(error, request.id);
      reply.code(status).header('x-content-type-options', 'nosniff').send(body);
    },
  }).withTypeProvider<ZodTypeProvider>();
  app.server.maxConnections = maxConnections;
  app.setValidatorCompiler(validatorCompiler);
  // answers are built by us and typed by the schemas: checking them again would only cost time
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.removeContentTypeParser('text/plain');
  return app;
}

function useChecks(app: App, deps: ServerDeps, timeouts: Timeouts): void {
  const checkHost = createHostCheck(deps.allowedHosts ?? []);
  const authenticate = createAuthentication(deps.store.apiKeys);
  let isClosing = false;
  app.addHook('preClose', async () => {
    isClosing = true;
  });
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-content-type-options', 'nosniff');
    reply.header('cache-control', 'no-store');
    checkHost(request);
    authenticate(request);
    refuseEncoding(request);
    if (isClosing) throw new SallyportError('unavailable', 'Cannot answer: the daemon is stopping');
    if (request.routeOptions.config.streamsBody !== true) limitBodyTime(request.raw, timeouts.bodyMs);
  });
}

/** Nothing of ours decompresses, so a compressed body could only be misread (RX-22). */
function refuseEncoding({ headers }: FastifyRequest): void {
  const encoding = headers['content-encoding'];
  if (encoding === undefined || encoding === 'identity') return;
  throw new SallyportError('invalid_request', `Cannot read the body: content-encoding ${encoding} is not supported`);
}

function useErrors(app: App): void {
  app.setErrorHandler((thrown, request, reply) => {
    const { status, body } = reportError(thrown, request);
    return reply.code(status).type('application/json').send(body);
  });
  app.setNotFoundHandler((request) => {
    throw new SallyportError('route_not_found', `Cannot ${request.method} this path: no such route`);
  });
}

function useRoutes(app: App, deps: ServerDeps): void {
  const metrics = new Metrics();
  sandboxRoutes(app, deps, metrics);
  logRoutes(app, deps);
  execRoutes(app, deps, metrics);
  stdinRoutes(app, deps);
  ptyRoutes(app, deps, metrics);
  fileRoutes(app, deps);
  fileContentRoutes(app, deps);
  fileWatchRoutes(app, deps);
  egressRoutes(app, deps);
  runRoutes(app, deps);
  matrixRoutes(app, deps);
  operationRoutes(app, deps, metrics);
}

function openapi() {
  return {
    openapi: '3.1.0',
    info: { title: 'Sallyport', version: '1', description: 'Sandboxes for code agents, and what happens in them.' },
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' } as const,
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' } as const,
      },
    },
    security: [{ bearer: [] }, { apiKey: [] }],
  };
}
