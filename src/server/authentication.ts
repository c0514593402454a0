/**
 * API keys on requests: `Authorization: Bearer <key>`, `X-API-Key: <key>`, or, because browsers can set no header on
 * a WebSocket, the subprotocol `sallyport.key.<key>`. There is no way without a key.
 */
import type { FastifyRequest } from 'fastify';
import { SallyportError } from '../errors/error.ts';
import type { ApiKeyRepository } from '../store/api-key-repository.ts';

const keyProtocolPrefix = 'sallyport.key.';

export function createAuthentication(apiKeys: ApiKeyRepository): (request: FastifyRequest) => void {
  return (request) => {
    if (request.routeOptions.config.isPublic === true) return;
    const key = presentedKey(request);
    if (key === undefined) throw new SallyportError('unauthenticated', 'Cannot answer: the request has no API key');
    if (apiKeys.verify(key) !== undefined) return;
    throw new SallyportError('unauthenticated', 'Cannot answer: the API key is unknown or revoked');
  };
}

function presentedKey({ headers }: FastifyRequest): string | undefined {
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  if (bearer !== undefined) return bearer;
  const plain = headers['x-api-key'];
  if (typeof plain === 'string') return plain;
  const protocols = headers['sec-websocket-protocol']?.split(',').map((protocol) => protocol.trim()) ?? [];
  return protocols.find((protocol) => protocol.startsWith(keyProtocolPrefix))?.slice(keyProtocolPrefix.length);
}

/** The subprotocol to agree on: one that is no secret, unless the client offered nothing else. */
export function chooseProtocol(offered: ReadonlySet<string>): string | false {
  const [first] = offered;
  for (const protocol of offered) {
    if (!protocol.startsWith(keyProtocolPrefix)) return protocol;
  }
  return first ?? false;
}
