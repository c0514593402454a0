/** Why no rule lets an attempt pass: the code, the rule that denies it or comes nearest, and a sentence with the values. */
import type { Denial, DenialCode } from '../types.ts';
import type { CompiledRule } from './compile.ts';
import { passByRule, passUnruled } from './pass.ts';
import { hasPort, type Scope, takes } from './scope.ts';
import { nearest, type Shortfall } from './shortfall.ts';
import { requestDenier } from './ways.ts';
import { kindOf, listed, nameOf, placeOf, portsOf, shown } from './words.ts';

/**
 * In this order: denied by a rule, cut off by the request's narrowing, the nearest rule's reason, an address of the special
 * ranges, no rule at all.
 */
export function denialOf(scope: Scope): Denial {
  return deniedByRule(scope) ?? narrowedAway(scope) ?? fallenShort(scope) ?? specialAddress(scope) ?? noRule(scope);
}

function deniedByRule(scope: Scope): Denial | undefined {
  if (scope.deny.length === 0) return undefined;
  const isToEverybody = passUnruled(scope) === undefined;
  if (!isToEverybody && passByRule({ ...scope, deny: [] }) === undefined) return undefined;
  const rule = denier(scope);
  if (rule === undefined) return undefined;
  if (scope.path !== undefined && 'ambiguous' in scope.path && rule.paths !== undefined) {
    return { code: 'ambiguous_request', rule: rule.id, reason: ambiguity(scope, rule) };
  }
  return { code: 'rule_denies', rule: rule.id, reason: `Rule ${rule.id} denies ${attempted(scope)}.` };
}

/** The one that is most surely meant: about this request, else about such connections, else about the port. */
function denier(scope: Scope): CompiledRule | undefined {
  const { deny, port, content, request } = scope;
  if (port === undefined) return deny[0];
  const way = content === undefined ? undefined : { port, kind: content.protocol };
  const exact = request === undefined || way === undefined ? undefined : requestDenier(scope, way, request);
  const onPort = deny.filter((rule) => hasPort(rule, port));
  return exact ?? onPort.find(({ rule }) => way === undefined || takes(rule.protocol, way.kind)) ?? onPort[0];
}

function narrowedAway(scope: Scope): Denial | undefined {
  const { rules, target, isWithinHosts } = scope;
  if (rules.hosts === undefined && !rules.isNarrowedToRules) return undefined;
  const pass = passByRule(scope, 'ignored');
  if (pass === undefined && (isWithinHosts || rules.grant.mode !== 'observe')) return undefined;
  const rule = pass?.rule?.id ?? null;
  const what = isWithinHosts
    ? `rule ${rule} is not among those that the request keeps`
    : `the request does not keep ${nameOf(target)}`;
  return { code: 'narrowed_away', rule, reason: `The class allows it, but ${what}.` };
}

function fallenShort(scope: Scope): Denial | undefined {
  const shortfall = nearest(scope);
  if (shortfall === undefined) return undefined;
  return { code: shortfall.code, rule: shortfall.rule.id, reason: reasonOf(shortfall, scope) };
}

function specialAddress(scope: Scope): Denial | undefined {
  const { special, target } = scope;
  if (special === undefined) return undefined;
  const reason = `${nameOf(target)} is ${special.name} (${special.block}), and no rule names it with "private: true".`;
  return { code: 'forbidden_address', rule: null, reason };
}

function noRule({ target, port }: Scope): Denial {
  const hint = target.kind === 'address' ? ': a raw address needs a rule with cidrs' : '';
  return { code: 'no_rule', rule: null, reason: `No rule is for ${placeOf(target, port)}${hint}.` };
}

function attempted({ target, port, content, request }: Scope): string {
  const place = placeOf(target, port);
  if (request !== undefined) return `${shown(request.method)} ${shown(request.path)} on ${place}`;
  return content === undefined ? place : `${kindOf(content.protocol)} to ${place}`;
}

const sentences: Readonly<Partial<Record<DenialCode, (rule: CompiledRule, scope: Scope) => string>>> = {
  wrong_port: ({ id, ports }, { port }) => `Rule ${id} is for port ${portsOf(ports)}, not ${port}.`,
  wrong_protocol: ({ id, rule }, { content }) =>
    `Rule ${id} is for ${rule.protocol}; this is ${kindOf(content?.protocol ?? 'raw')}.`,
  server_name_missing: ({ id }, { target }) => {
    const hello = target.kind === 'address' ? 'TLS to an address names no server' : 'The ClientHello names no server';
    return `${hello}, and rule ${id} for ${nameOf(target)} has no "noSni".`;
  },
  server_name_encrypted: ({ id }, { target }) =>
    `The ClientHello encrypts the server name, and rule ${id} for ${nameOf(target)} has no "ech".`,
  server_name_mismatch: mismatchOf,
  host_mismatch: (_rule, { target, port, request }) => {
    const host = request?.host ?? 'no host name';
    return `The request is for ${host}${request?.port === undefined ? '' : `:${request.port}`}, the connection goes to ${placeOf(target, port)}.`;
  },
  method_not_allowed: ({ id, methods }, { request }) =>
    `Rule ${id} allows ${listed([...(methods ?? [])])}, not ${shown(request?.method ?? '')}.`,
  path_not_allowed: ({ id, rule }, { request }) =>
    `Rule ${id} allows paths ${listed(rule.paths ?? [])}, not ${shown(request?.path ?? '')}.`,
  ambiguous_request: (rule, scope) => ambiguity(scope, rule),
  websocket_not_allowed: ({ id }) => `Rule ${id} allows no WebSocket.`,
  wrong_phase: ({ id, rule }, { phase }) =>
    `Rule ${id} is for phase ${listed(rule.phases ?? [])}, and the sandbox is in ${phase ?? 'none'}.`,
};

function reasonOf({ rule, code }: Shortfall, scope: Scope): string {
  return sentences[code]?.(rule, scope) ?? `Rule ${rule.id} does not allow it.`;
}

function mismatchOf(_rule: CompiledRule, { target, content }: Scope): string {
  const name = content?.protocol === 'tls' ? content.serverName : undefined;
  return `The ClientHello names ${name ?? 'no server'}, the connection goes to ${nameOf(target)}.`;
}

function ambiguity({ path, request }: Scope, { id }: CompiledRule): string {
  const why = path !== undefined && 'ambiguous' in path ? path.ambiguous : 'it is none';
  return `Rule ${id} looks at paths, and ${shown(request?.path ?? '')} has more than one reading: ${why}.`;
}
