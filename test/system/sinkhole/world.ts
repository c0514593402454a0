/**
 * Oracle O2: an internet of the test's own. What runs through `wrapper` can reach any address there is, and each is
 * answered here; every packet it sends is seen. Nothing of it leaves this machine, and nothing of it outlives this
 * process. The servers run in this process: a test that blocks it (spawnSync) blocks them.
 *
 * @example
 * const world = await makeWorld({ zone: { 'api.example': { a: ['192.0.2.7'] } } });
 * await runProgram(...world.wrapper, 'curl', 'http://192.0.2.7/');
 * await world.expectOnly('tcp 192.0.2.7:80');
 * await world.close();
 */
import { type Contact, checkOnly, contactsOf } from './contacts.ts';
import { type Door, openDoor } from './door.ts';
import { makeNetwork, type Network, ports, resolverAddress } from './network.ts';
import { type Packet, type Recorder, startRecorder } from './recorder.ts';
import { Recording } from './recording.ts';
import { makeAuthority } from './servers/certificates.ts';
import { type SeenQuestion, serveDns, type Zone, type ZoneEntry } from './servers/dns.ts';
import { type SeenConnection, type SeenRequest, serveWeb } from './servers/http.ts';
import { serveBanner, serveDatagrams, serveEcho } from './servers/plain.ts';

export interface WorldOptions {
  /** What the world's resolver knows, by lower-case name. */
  readonly zone?: Readonly<Record<string, ZoneEntry>>;
}

export interface World {
  /** The namespace for what is tested, as `nsenter --net=` takes it. */
  readonly daemonNetns: string;
  /** Before a command: runs it there, in the same process, and ends it should this process die. */
  readonly wrapper: readonly string[];
  /** `address:port`. */
  readonly resolver: string;
  /** The root certificate of every server of the world. */
  readonly caPem: string;
  /** May be changed at any time. */
  readonly zone: Zone;
  /** Waits until what was sent before has been seen. */
  settle(): Promise<void>;
  /** Every packet, but for the later ones of TCP connections. All of these since the start, or the last `forget`. */
  seen(): readonly Packet[];
  contacts(): readonly Contact[];
  /** Settles. @throws Error unless exactly these were contacted: `tcp 192.0.2.7:443`, `udp [2001:db8::1]:53`, `icmp …` */
  expectOnly(...allowed: readonly string[]): Promise<void>;
  requests(): readonly SeenRequest[];
  connections(): readonly SeenConnection[];
  questions(): readonly SeenQuestion[];
  /** Settles, then begins anew. */
  forget(): Promise<void>;
  /** Makes a loopback port of the daemon's namespace reachable from the host's. Closes with the world. */
  openDoor(port: number): Promise<Door>;
  /** Programs that were started through `wrapper` are their starter's to end. */
  close(): Promise<void>;
}

interface Closable {
  close(): Promise<void> | void;
}

/** What is closed at the end, the newest first. */
class Held {
  readonly #parts: Closable[] = [];

  async add<Part extends Closable>(part: Part | Promise<Part>): Promise<Part> {
    const made = await part;
    this.#parts.push(made);
    return made;
  }

  async close(): Promise<void> {
    const part = this.#parts.pop();
    if (part === undefined) return;
    try {
      await part.close();
    } finally {
      await this.close();
    }
  }
}

export async function makeWorld({ zone = {} }: WorldOptions = {}): Promise<World> {
  const held = new Held();
  try {
    const network = await held.add(makeNetwork());
    return await openWorld(held, network, new Map(Object.entries(zone)));
  } catch (error) {
    await held.close();
    throw error;
  }
}

async function openWorld(held: Held, network: Network, zone: Zone): Promise<World> {
  const authority = makeAuthority();
  const requests = new Recording<SeenRequest>('requests');
  const connections = new Recording<SeenConnection>('connections', 4_000);
  const questions = new Recording<SeenQuestion>('questions');
  await held.add(serveEcho(network.world));
  await held.add(serveBanner(network.world));
  await held.add(serveDatagrams(network.world));
  await held.add(serveDns(network.world, zone, questions));
  await held.add(serveWeb(network.world, authority, { requests, connections }));
  const recorder: Recorder = await held.add(startRecorder(network));
  const { packets, settle } = recorder;
  const contacts = (): readonly Contact[] => contactsOf(packets.all());
  return {
    daemonNetns: network.daemon.path,
    wrapper: ['nsenter', `--net=${network.daemon.path}`, 'setpriv', '--pdeathsig', 'KILL'],
    resolver: `${resolverAddress}:${ports.dns}`,
    caPem: authority.pem,
    zone,
    settle,
    seen: () => packets.all(),
    contacts,
    expectOnly: async (...allowed) => {
      await settle();
      checkOnly(contacts(), allowed);
    },
    requests: () => requests.all(),
    connections: () => connections.all(),
    questions: () => questions.all(),
    forget: async () => {
      await settle();
      for (const recording of [packets, requests, connections, questions]) recording.forget();
    },
    openDoor: (port) => held.add(openDoor(network.daemon, port)),
    close: () => held.close(),
  };
}
