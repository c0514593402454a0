/**
 * Which names and pages may speak to the daemon. A page on the web can make a browser send requests to loopback; it
 * can choose the Host (DNS rebinding, HX-08) or must show its Origin (HX-07, HX-09): both are refused here.
 */
import type { FastifyRequest } from 'fastify';
import { SallyportError } from '../errors/error.ts';

const loopbackNames = ['127.0.0.1', 'localhost', '[::1]'] as const;
/** The port of requests that came over no socket (in-process tests), where URLs carry none. */
const httpPort = 80;

/** @param allowedHosts `host:port` values beside the loopback ones */
export function createHostCheck(allowedHosts: readonly string[]): (request: FastifyRequest) => void {
  const configured = new Set(allowedHosts.map((host) => host.toLowerCase()));
  const isOwn = (host: string, port: number): boolean =>
    configured.has(host) || loopbackNames.some((name) => host === `${name}:${port}` || (port === 80 && host === name));

  return (request) => {
    const port = request.raw.socket.localPort ?? httpPort;
    const host = request.headers.host?.toLowerCase() ?? '';
    if (!isOwn(host, port)) {
      throw new SallyportError('host_not_allowed', `Cannot answer for the host ${JSON.stringify(host)}`);
    }
    checkOrigin(request.headers.origin, (origin) => isOwn(origin, port));
    checkFetchSite(request.headers['sec-fetch-site']);
  };
}

function checkOrigin(origin: string | undefined, isOwn: (host: string) => boolean): void {
  if (origin === undefined) return;
  const host = /^https?:\/\/([^/]+)$/.exec(origin.toLowerCase())?.[1];
  if (host !== undefined && isOwn(host)) return;
  throw new SallyportError('origin_not_allowed', `Cannot answer a page of the origin ${JSON.stringify(origin)}`);
}

/** `same-site` is refused too: another port of localhost is the same site, and not us. */
function checkFetchSite(site: string | string[] | undefined): void {
  if (site === undefined || site === 'same-origin' || site === 'none') return;
  throw new SallyportError('origin_not_allowed', `Cannot answer a ${JSON.stringify(site)} request of a web page`);
}
