/**
 * The programs that people really use, against our certificates and against those of a root that the system trusted before.
 * Nothing here leaves loopback.
 */
import { execFile } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import { type AddressInfo, createServer as createListener, type Server as Listener, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSecureContext, type SecureContext } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type HostName, parseHostName } from '../../network/host-name.ts';
import { type HostPattern, parseHostPattern } from '../../network/host-pattern.ts';
import { type Authority, createAuthority } from './authority.ts';
import { authorityExtensions, leafExtensions, signCertificate } from './certificate.ts';
import { type ClientHello, readClientHello } from './client-hello.ts';
import { javaTrustStore } from './java-trust-store.ts';
import { mergeBundles, trustEnvironment } from './trust-bundle.ts';

const hostName = (text: string): HostName => parseHostName(text) as HostName;
const pattern = (text: string): HostPattern => parseHostPattern(text) as HostPattern;
const now = new Date();
const notAfter = new Date(now.getTime() + 60 * 60_000);
const rules = [pattern('api.example'), pattern('*.dev.example')];
const refs = `${'1'.repeat(40)}\trefs/heads/main\n`;
const programMs = 50_000;

interface Root {
  readonly certificatePem: string;
  leaf(host: HostName): SecureContext;
}

/** An authority as ours are, whose key the test has. */
function root(name: string, hosts: readonly HostPattern[]): Root {
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const leafKeys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const issued = { issuer: name, signingKey: keys.privateKey, notBefore: new Date(now.getTime() - 60_000), notAfter };
  const { publicKey } = keys;
  const key = leafKeys.privateKey.export({ format: 'pem', type: 'pkcs8' });
  const leaf = (host: HostName): string =>
    signCertificate({
      ...issued,
      subject: 'leaf',
      publicKey: leafKeys.publicKey,
      extensions: leafExtensions(host, publicKey),
    });
  const extensions = authorityExtensions(publicKey, hosts);
  return {
    certificatePem: signCertificate({ ...issued, subject: name, publicKey, extensions }),
    leaf: (host) => createSecureContext({ cert: leaf(host), key }),
  };
}

/** What the system trusted before there was a sandbox. */
const publicRoot = root('public root', [pattern('other.example')]);
const stolen = root('stolen', rules);

let authority: Authority;
let server: Server;
let folder: string;
let environment: Record<string, string>;
let context: SecureContext;

beforeAll(async () => {
  authority = createAuthority({ sandboxId: 'sb-1', hosts: rules, now, notAfter });
  context = authority.secureContextFor(hostName('api.example'));
  server = createServer({ SNICallback: (_, done) => done(null, context) }, (_, response) => response.end(refs));
  server.on('tlsClientError', () => undefined);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  folder = await mkdtemp(join(tmpdir(), 'sallyport-tls-'));
  const paths = { bundlePath: join(folder, 'bundle.crt'), certificatePath: join(folder, 'own.pem') };
  const ours = authority.certificatePem + stolen.certificatePem;
  const bundle = mergeBundles(publicRoot.certificatePem, ours);
  await writeFile(paths.bundlePath, bundle);
  await writeFile(paths.certificatePath, ours);
  await writeFile(join(folder, 'cacerts'), javaTrustStore(bundle, now));
  await writeFile(join(folder, 'Fetch.java'), javaProgram);
  await writeFile(join(folder, 'fetch.go'), goProgram);
  environment = trustEnvironment(paths);
});

afterAll(async () => {
  server.close();
  server.closeAllConnections();
  authority.dispose();
  await rm(folder, { recursive: true });
});

const underscored = 'trusts it for a host with an underscore';
const kept = 'still trusts what it trusted before';
const constrained = 'holds an authority with a stolen key to its hosts';

interface Client {
  readonly name: string;
  /** The program and its arguments, for a request to this host at this port of 127.0.0.1. */
  readonly command: (host: string, port: number) => readonly string[];
  /** Why a test of this title cannot be made with it. */
  readonly cannot?: Readonly<Record<string, string>>;
}

const clients: readonly Client[] = [
  {
    name: 'openssl',
    command: (host, port) =>
      ['openssl', 's_client', '-connect', `127.0.0.1:${port}`, '-servername', host, '-verify_hostname', host].concat([
        '-verify_return_error',
        '-brief',
      ]),
  },
  {
    name: 'curl',
    command: (host, port) => ['curl', '-sS', '--resolve', `${host}:${port}:127.0.0.1`, `https://${host}:${port}/`],
  },
  {
    name: 'git',
    command: (host, port) =>
      ['git', '-c', `http.curloptResolve=${host}:${port}:127.0.0.1`, 'ls-remote'].concat(
        `https://${host}:${port}/x.git`,
      ),
  },
  { name: 'python3', command: (host, port) => ['python3', '-c', pythonProgram, host, `${port}`] },
  {
    name: 'node',
    command: (host, port) => ['node', '-e', nodeProgram, host, `${port}`],
    cannot: { [kept]: 'Node has its roots built in, and adds to them' },
  },
  {
    name: 'java',
    cannot: {
      [underscored]: 'Java sends no such server name',
      [constrained]: 'Java does not look at the constraints of a root',
    },
    command: (host, port) =>
      ['java', `-Djavax.net.ssl.trustStore=${join(folder, 'cacerts')}`, join(folder, 'Fetch.java'), host].concat(
        `${port}`,
      ),
  },
  { name: 'go', command: (host, port) => ['go', 'run', join(folder, 'fetch.go'), host, `${port}`] },
];

/** The environment of a command, with what Go needs to build. */
function run(
  client: Client,
  host: string,
  port = portOf(server),
): Promise<{ readonly ok: boolean; readonly said: string }> {
  const [program = '', ...args] = client.command(host, port);
  const { PATH = '', HOME = folder } = process.env;
  const env = {
    PATH,
    HOME,
    GOPROXY: 'off',
    GO111MODULE: 'off',
    CGO_ENABLED: '0',
    GIT_TERMINAL_PROMPT: '0',
    ...environment,
  };
  return new Promise((resolve) => {
    const child = execFile(program, args, { env, cwd: folder, timeout: programMs }, (error, stdout, stderr) =>
      resolve({ ok: error === null, said: stdout + stderr }),
    );
    child.stdin?.end();
  });
}

function portOf(listening: Listener): number {
  return (listening.address() as AddressInfo).port;
}

/** The first bytes that a client sends, read as often as some of them have come. */
async function helloOf(client: Client, host: string): Promise<ClientHello> {
  const listener = createListener();
  await once(listener.listen(0, '127.0.0.1'), 'listening');
  try {
    const accepted = once(listener, 'connection');
    const ended = run(client, host, portOf(listener));
    const [socket] = (await accepted) as [Socket];
    let bytes = Buffer.alloc(0);
    for await (const piece of socket) {
      bytes = Buffer.concat([bytes, piece as Buffer]);
      if (readClientHello(bytes).kind !== 'incomplete') break;
    }
    await ended;
    return readClientHello(bytes);
  } finally {
    listener.close();
  }
}

const isHere = (program: string): Promise<boolean> =>
  new Promise((resolve) => execFile('which', [program], (error) => resolve(error === null)));

describe.each(clients)('$name', (client) => {
  const test = (title: string, body: () => Promise<void>): void =>
    it(title, { timeout: 4 * programMs }, async ({ skip }) => {
      const why = (await isHere(client.name)) ? client.cannot?.[title] : `${client.name} is not on PATH`;
      if (why !== undefined) skip(why);
      await body();
    });

  test('trusts what the authority of the sandbox signed', async () => {
    for (const host of ['api.example', 'a.b.dev.example']) {
      context = authority.secureContextFor(hostName(host));
      expect(await run(client, host)).toMatchObject({ ok: true });
    }
  });

  test('says in its first bytes which host it wants', async () => {
    const hello = await helloOf(client, 'api.example');
    expect(hello).toMatchObject({ kind: 'hello', serverName: 'api.example', encryptedHello: false });
    if (hello.kind === 'hello') expect(hello.versions).toContain(0x0304);
  });

  test(underscored, async () => {
    context = authority.secureContextFor(hostName('x_1.dev.example'));
    expect(await run(client, 'x_1.dev.example')).toMatchObject({ ok: true });
  });

  test(kept, async () => {
    context = publicRoot.leaf(hostName('other.example'));
    expect(await run(client, 'other.example')).toMatchObject({ ok: true });
  });

  test('does not trust the certificate of another host', async () => {
    context = authority.secureContextFor(hostName('api.example'));
    expect((await run(client, 'y.dev.example')).ok).toBe(false);
  });

  test(constrained, async () => {
    context = stolen.leaf(hostName('a.dev.example'));
    expect(await run(client, 'a.dev.example')).toMatchObject({ ok: true });
    context = stolen.leaf(hostName('other.example'));
    expect((await run(client, 'other.example')).ok).toBe(false);
  });
});

const pythonProgram = `
import socket, ssl, sys
host, port = sys.argv[1], int(sys.argv[2])
context = ssl.create_default_context()
context.verify_flags |= ssl.VERIFY_X509_STRICT
with socket.create_connection(('127.0.0.1', port)) as plain:
    with context.wrap_socket(plain, server_hostname=host) as secure:
        print(secure.version())
`;

const nodeProgram = `
const [host, port] = process.argv.slice(1);
require('node:https').get({ host: '127.0.0.1', port, servername: host, headers: { host }, agent: false }, (response) => {
  response.resume();
});
`;

const javaProgram = `
import javax.net.ssl.*;
public class Fetch {
  public static void main(String[] args) throws Exception {
    int port = Integer.parseInt(args[1]);
    java.net.Socket plain = new java.net.Socket("127.0.0.1", port);
    SSLSocketFactory factory = (SSLSocketFactory) SSLSocketFactory.getDefault();
    SSLSocket socket = (SSLSocket) factory.createSocket(plain, args[0], port, true);
    SSLParameters parameters = socket.getSSLParameters();
    parameters.setEndpointIdentificationAlgorithm("HTTPS");
    socket.setSSLParameters(parameters);
    socket.startHandshake();
    System.out.println(socket.getSession().getProtocol());
    socket.close();
  }
}
`;

const goProgram = `
package main

import (
	"crypto/tls"
	"os"
)

func main() {
	connection, err := tls.Dial("tcp", "127.0.0.1:"+os.Args[2], &tls.Config{ServerName: os.Args[1]})
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
	connection.Close()
}
`;
