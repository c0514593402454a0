/** Options that several commands take, so that they are called and described the same everywhere. */
import type { OptionDescription } from './command.ts';

export const homeOption: OptionDescription = {
  flags: '--home <folder>',
  summary: 'state of sallyport (SALLYPORT_HOME, default /var/lib/sallyport)',
};
export const policyOption: OptionDescription = {
  flags: '--policy <file>',
  summary: 'permission matrix (SALLYPORT_POLICY, default policy.yaml in the home, else the one that comes along)',
};
export const jsonOption: OptionDescription = { flags: '--json', summary: 'answer in JSON' };

export const resolverOption: OptionDescription = {
  flags: '--resolver <address>',
  summary: 'resolver for names that rules allow, address or address:port (default those of the host)',
  repeat: true,
};

export const upstreamCaOption: OptionDescription = {
  flags: '--upstream-ca <file>',
  summary: 'PEM certificates that upstreams of opened TLS may be signed by, besides the usual roots',
  repeat: true,
};

/** What is left of the class's network; for a request and for a running sandbox. */
export const networkOptions: readonly OptionDescription[] = [
  { flags: '--network <mode>', summary: 'deny: nothing at all', choices: ['deny'] },
  { flags: '--allow-host <pattern>', summary: 'only these of the hosts that the class allows', repeat: true },
  { flags: '--network-rule <id>', summary: 'only these of the rules of the class', repeat: true },
];

/** For commands that call the daemon. */
export const clientOptions: readonly OptionDescription[] = [
  { flags: '--url <url>', summary: 'the daemon (SALLYPORT_URL, default the one of the home)' },
  homeOption,
];

/** What a caller may ask of a class; each narrows it. */
export const requestOptions: readonly OptionDescription[] = [
  { flags: '--class <name>', summary: 'job class of the permission matrix' },
  { flags: '--tier <tier>', summary: 'isolation', choices: ['process', 'container'] },
  { flags: '--image <name>', summary: 'image of the sandbox' },
  ...networkOptions,
  { flags: '--env <KEY=value>', summary: 'environment variable', repeat: true },
  { flags: '--memory <size>', summary: 'memory, for instance 512MiB' },
  { flags: '--cpu <cpus>', summary: 'CPUs, for instance 1.5' },
  { flags: '--pids <count>', summary: 'processes and threads at once' },
  { flags: '--disk <size>', summary: 'writable bytes, for instance 1GiB' },
  { flags: '--timeout <duration>', summary: 'longest life of a command, for instance 30s' },
];
