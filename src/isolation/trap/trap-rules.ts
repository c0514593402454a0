/**
 * What a sandbox's network namespace is made of, as text for `ip` and `nft`. There is `lo` and nothing else (invariant 1):
 * every TCP connection and every DNS question ends at a socket of ours on it, everything else is refused and logged.
 */

/** Inside the namespace only; a program there may connect to them, and is then told that it went nowhere. */
export const trapPorts = { tcp: 15001, dns: 15053 } as const;

/** The netfilter log group of the namespace. */
export const dropLogGroup = 7;

/**
 * A default route by `lo`, so that every address counts as reachable. The source has to be named: `lo` has addresses of scope
 * host only, the kernel picks none of them for a global destination, and an answer to 0.0.0.0 goes nowhere.
 */
export const linkCommands = `link set lo up
route add default dev lo src 127.0.0.1
route add ::/0 dev lo src ::1
`;

/** Programs inside may serve any port of their own. */
export const namespaceSysctls: readonly (readonly [string, string])[] = [['net/ipv4/ip_unprivileged_port_start', '0']];

/**
 * Connections among programs of the sandbox (127.0.0.0/8, ::1) are its own affair, but for DNS, which is answered here wherever
 * it was sent. What is refused fails at once (EPERM, or ICMP "administratively prohibited"), so nobody waits for a timeout.
 */
export const nftRules = `table inet sallyport {
  chain divert {
    type nat hook output priority -100; policy accept;
    ip daddr 127.0.0.0/8 tcp dport != 53 accept
    ip6 daddr ::1 tcp dport != 53 accept
    meta l4proto tcp redirect to :${trapPorts.tcp}
    udp dport 53 redirect to :${trapPorts.dns}
  }
  chain guard {
    type filter hook output priority 0; policy drop;
    ip daddr 127.0.0.0/8 accept
    ip6 daddr ::1 accept
    log group ${dropLogGroup} snaplen 96
    reject with icmpx type admin-prohibited
  }
}
`;
