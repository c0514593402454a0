/**
 * Whether an address may be dialled: the last question, asked of the very address that is connected to (NX-10), with what only
 * the moment knows: the host's own addresses. A name that may be reached may still resolve to where nobody may go. To be asked
 * of raw addresses too: `decide` knows nothing of the host itself (NX-08, NX-37).
 */

import type { IpAddress } from '../../network/ip-address.ts';
import { isMetadata } from '../../network/metadata.ts';
import { facesOf, isSpecial, rangeOf } from '../../network/special-ranges.ts';
import type { Denial } from '../types.ts';
import type { CompiledRules } from './compile.ts';
import { hasPort, isInPhase, namesPrivately } from './scope.ts';

export interface OwnAddresses {
  /** Of the host's interfaces, in canonical text. */
  readonly addresses: ReadonlySet<string>;
  /** What the daemon listens on; on the host itself no rule opens them. */
  readonly daemonPorts: ReadonlySet<number>;
}

export function judgeAddress(
  rules: CompiledRules,
  phase: string | undefined,
  address: IpAddress,
  port: number,
  own: OwnAddresses,
): Denial | undefined {
  if (rules.grant.mode === 'deny') return { code: 'mode_deny', rule: null, reason: 'This sandbox has no network.' };
  if (isMetadata(address)) return forbidden(address, 'the address of a metadata service; no rule opens those');
  const isOwn = isHostItself(address, own);
  if (isOwn && own.daemonPorts.has(port))
    return forbidden(address, `where the daemon listens on port ${port}; no rule opens that`);
  const denying = facesOf(address).flatMap((face) => rules.deny.forAddress(face));
  // what is sent is not known here, so that a rule that denies part of it denies all
  const denier = denying.find((rule) => isInPhase(rule, phase) && hasPort(rule, port));
  if (denier !== undefined) {
    return {
      code: 'rule_denies',
      rule: denier.id,
      reason: `Rule ${denier.id} denies ${address.text} on port ${port}.`,
    };
  }
  const special = isSpecial(address);
  if (special === undefined && !isOwn) return undefined;
  if (isNamed(rules, phase, address, port)) return undefined;
  const what = special === undefined ? 'an address of the host itself' : `${special.name} (${special.block})`;
  return forbidden(address, `${what}, and no rule of now names it with "private: true" and port ${port}`);
}

function isNamed(rules: CompiledRules, phase: string | undefined, address: IpAddress, port: number): boolean {
  return rules.allow
    .forAddress(address)
    .some((rule) => rule.isKept && isInPhase(rule, phase) && hasPort(rule, port) && namesPrivately(rule, address));
}

/** In any of its forms: what is connected to 0.0.0.0 or to 127.1.2.3 arrives here as well. */
function isHostItself(address: IpAddress, { addresses }: OwnAddresses): boolean {
  return facesOf(address).some((face) => addresses.has(face.text) || rangeOf(face)?.isHost === true);
}

function forbidden({ text }: IpAddress, why: string): Denial {
  return { code: 'forbidden_address', rule: null, reason: `${text} is ${why}.` };
}
