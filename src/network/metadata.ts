/**
 * Metadata services: where a cloud tells a machine its secrets. No rule and no mode opens them (NX-07). Those at public
 * names and addresses are the reason for a list: the others are in blocks that are special anyway.
 */
import type { HostName } from './host-name.ts';
import type { IpAddress } from './ip-address.ts';
import { facesOf } from './special-ranges.ts';

/** In canonical spelling; the comment says whose. */
const addresses: ReadonlySet<string> = new Set([
  '169.254.169.254', // AWS, Google, Azure, OpenStack, Oracle, DigitalOcean, Hetzner, IBM, Akamai, and most others
  'fd00:ec2::254', // AWS
  '169.254.170.2', // AWS, credentials of ECS tasks
  '169.254.170.23', // AWS, EKS Pod Identity
  'fd00:ec2::23',
  'fd20:ce::254', // Google
  '169.254.169.252', // Google, GKE metadata server
  '168.63.129.16', // Azure, WireServer: a public address
  '100.100.100.200', // Alibaba
  'fd00:100::100:200',
  '169.254.0.23', // Tencent
  '169.254.10.10',
  '192.0.0.192', // Oracle, classic
  'fd00:c1::a9fe:a9fe', // Oracle
  'fe80::a9fe:a9fe', // OpenStack, Akamai
  'fd00:a9fe:a9fe::1', // Akamai
  '169.254.42.42', // Scaleway
  'fd00:42::42',
  '100.96.0.96', // Volcengine
  '100.80.80.80', // UCloud
  '169.254.169.250', // Rancher
  '192.80.8.124', // Equinix Metal: a public address
]);

/** These, and whatever is below them. */
const hosts: ReadonlySet<string> = new Set([
  'metadata', // by way of a search domain
  'metadata.internal',
  'metadata.google.internal',
  'metadata.goog',
  'instance-data', // AWS
  'instance-data.ec2.internal',
  'metadata.azure.internal',
  'metadata.azure.com',
  'metadata.tencentyun.com',
  'api.metadata.cloud.ibm.com',
  'metadata.oraclecloud.com',
  'metadata.exoscale.com',
  'metadata.digitalocean.com',
  'metadata.scaleway.com',
  'metadata.platformequinix.com',
  'metadata.packet.net',
  'rancher-metadata',
  'rancher-metadata.rancher.internal',
  'data-server', // CloudStack
]);

/** Whether the address, or one that it carries, is a metadata service's. */
export function isMetadata(address: IpAddress): boolean {
  return facesOf(address).some(({ text }) => addresses.has(text));
}

export function isMetadataHost(host: HostName): boolean {
  if (hosts.has(host)) return true;
  for (let dot = host.indexOf('.'); dot >= 0; dot = host.indexOf('.', dot + 1)) {
    if (hosts.has(host.slice(dot + 1))) return true;
  }
  return false;
}
