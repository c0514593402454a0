/** Capabilities of PID 1, inside the sandbox's own user namespace (PX-11). Commands get none unless the Grant has root. */

/** To become the sandbox's user, to drop the rest, to end what other users inside run. */
const always: readonly string[] = ['CAP_KILL', 'CAP_SETGID', 'CAP_SETPCAP', 'CAP_SETUID'];

/** What root in the box is made of: own every file, install packages, listen below 1024. */
const withRoot: readonly string[] = [
  ...always,
  'CAP_AUDIT_WRITE',
  'CAP_CHOWN',
  'CAP_DAC_OVERRIDE',
  'CAP_FOWNER',
  'CAP_FSETID',
  'CAP_NET_BIND_SERVICE',
  'CAP_SETFCAP',
  'CAP_SYS_CHROOT',
];

export function capabilitiesOf(root: boolean): readonly string[] {
  return root ? withRoot : always;
}
