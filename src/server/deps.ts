/** What the server is given: it owns none of it and closes none of it. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import type { Policy } from '../admission/policy.ts';
import type { Sandboxes } from '../sandbox/types.ts';
import type { Store } from '../store/store.ts';
import type { Timeouts } from './timeouts.ts';

export interface ServerDeps {
  readonly sandboxes: Sandboxes;
  readonly store: Pick<Store, 'sandboxes' | 'runs' | 'apiKeys'>;
  /** Absent: the routes of the matrix say that there is none. */
  readonly matrix?: LiveMatrix;
  readonly log: FastifyBaseLogger;
  /** More `host:port` values to answer to, for a reverse proxy or an address that is not loopback. */
  readonly allowedHosts?: readonly string[];
  readonly timeouts?: Partial<Timeouts>;
}

export interface LiveMatrix {
  current(): Policy;
  /** @throws SallyportError `policy_unreadable`, `policy_invalid`; then the old one binds on */
  reload(): Promise<{ readonly sha256: string; readonly sandboxes: number }>;
}

/** The Fastify instance with zod as the source of types. */
export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Answered without an API key. */
    readonly isPublic?: boolean;
    /** Reads its body as a stream, so the deadline for whole bodies does not apply. */
    readonly streamsBody?: boolean;
  }
}
