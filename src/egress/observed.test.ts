import { describe, expect, it } from 'vitest';
import { observedFlows } from './observed.ts';
import { EgressLog, type EgressRecord, type NewRecord } from './records.ts';
import { suggestRules } from './rules/suggest.ts';

function recorded(...entries: readonly NewRecord[]): readonly EgressRecord[] {
  const log = new EgressLog();
  for (const entry of entries) log.add(entry);
  return log.read();
}

const connection = {
  kind: 'connection',
  verdict: 'would-deny',
  host: 'a.example',
  port: 443,
  protocol: 'tls',
} as const;

describe('what was observed', () => {
  it('is each connection once, under the name it was made to', () => {
    const records = recorded(connection, { ...connection, address: '192.0.2.1' });
    expect(observedFlows(records)).toEqual([
      { target: { kind: 'host', host: 'a.example' }, port: 443, protocol: 'tls' },
    ]);
  });

  it('is told by requests where they were seen, without what was denied, asked or refused as a packet', () => {
    const records = recorded(
      { ...connection, protocol: 'http', port: 80 },
      {
        kind: 'request',
        verdict: 'would-deny',
        host: 'a.example',
        port: 80,
        protocol: 'http',
        method: 'GET',
        path: '/x',
      },
      { ...connection, verdict: 'deny' },
      { kind: 'dns', verdict: 'would-deny', host: 'b.example', protocol: 'A' },
      { kind: 'packet', verdict: 'deny', address: '192.0.2.1', protocol: 'udp', port: 443 },
    );
    expect(observedFlows(records)).toMatchObject([{ protocol: 'http', method: 'GET', path: '/x' }]);
  });

  it('says what a rule would have to let pass beyond the usual', () => {
    const records = recorded(
      { ...connection, code: 'server_name_missing' },
      { ...connection, host: 'b.example', code: 'server_name_encrypted' },
      {
        kind: 'request',
        verdict: 'would-deny',
        host: 'c.example',
        port: 443,
        protocol: 'tls',
        method: 'GET',
        path: '/',
        status: 101,
      },
    );
    expect(observedFlows(records)).toMatchObject([{ noSni: true }, { ech: true }, { websocket: true }]);
  });

  it('becomes rules that allow it', () => {
    const { rules, uncovered } = suggestRules(observedFlows(recorded(connection)));
    expect(uncovered).toEqual([]);
    expect(rules).toMatchObject([{ rule: { hosts: ['a.example'], ports: [{ from: 443, to: 443 }] } }]);
  });
});
