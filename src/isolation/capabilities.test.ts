import { describe, expect, it } from 'vitest';
import { capabilitiesOf } from './capabilities.ts';

describe('PX-11: the capabilities of PID 1', () => {
  it('without root are four: to become the user of the sandbox, and to end what runs in it', () => {
    expect(capabilitiesOf(false)).toEqual(['CAP_KILL', 'CAP_SETGID', 'CAP_SETPCAP', 'CAP_SETUID']);
  });

  it('with root are those of a package manager, and none that reaches the kernel, the network or other processes', () => {
    expect([...capabilitiesOf(true)].sort()).toEqual([
      'CAP_AUDIT_WRITE',
      'CAP_CHOWN',
      'CAP_DAC_OVERRIDE',
      'CAP_FOWNER',
      'CAP_FSETID',
      'CAP_KILL',
      'CAP_NET_BIND_SERVICE',
      'CAP_SETFCAP',
      'CAP_SETGID',
      'CAP_SETPCAP',
      'CAP_SETUID',
      'CAP_SYS_CHROOT',
    ]);
  });
});
