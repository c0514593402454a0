/**
 * Clients as they are, in sandboxes, against real servers: the registries that this host is configured for, and a PostgreSQL of
 * the test's own. None is given a proxy variable. What the host has not is skipped, and said.
 */
import { execFileSync, spawn } from 'node:child_process';
import { resolve4 } from 'node:dns/promises';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EgressRecord } from '../../src/egress/records.ts';
import { serveZone } from '../support/zone.ts';
import { cli, makeHome, removeHome } from './daemon.ts';

let folder: string;
let home: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-clients-'));
  home = makeHome();
});

afterAll(() => {
  rmSync(folder, { recursive: true });
  removeHome(home);
});

/** One class whose network is these rules. */
function policyOf(name: string, tier: 'process' | 'container', rules: readonly object[]): string {
  const file = join(folder, `${name}.yaml`);
  const image = tier === 'process' ? { default: 'host', allow: [] } : { default: 'base', allow: [] };
  writeFileSync(
    file,
    JSON.stringify({
      version: 1,
      classes: {
        client: {
          isolation: { tier, atLeast: tier, root: false },
          image,
          files: { workdir: '/home/user', inputBytes: '1MiB', inputFiles: 10 },
          network: { mode: 'allow', rules },
          packages: 'none',
          secrets: 'none',
          limits: {
            cpuShares: 1024,
            cpuMillis: 2000,
            memory: '1GiB',
            pids: 256,
            openFiles: 4096,
            disk: '256MiB',
            inodes: 30000,
            exec: '2m',
            output: '8MiB',
          },
          env: { set: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/home/user', LANG: 'C.UTF-8' }, allow: [] },
          artifacts: { bytes: '1MiB', files: 10 },
          tools: [],
          lifetime: { wall: '3m', idle: '2m' },
        },
      },
    }),
  );
  return file;
}

interface Ran {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly records: readonly EgressRecord[];
}

async function run(policy: string, options: readonly string[], command: readonly string[]): Promise<Ran> {
  const output = mkdtempSync(join(folder, 'out-'));
  const line = [
    'run',
    '--quiet',
    '--policy',
    policy,
    '--class',
    'client',
    '--output',
    output,
    ...options,
    '--',
    ...command,
  ];
  const { status, stdout, stderr } = await cli(line, { home, deadlineMs: 150_000 });
  const [id = ''] = readdirSync(output);
  const text = readFileSync(join(output, id, 'egress.jsonl'), 'utf8');
  const records = text
    .split('\n')
    .filter((entry) => entry !== '')
    .map((entry) => JSON.parse(entry) as EgressRecord);
  return { status, stdout: stdout.toString(), stderr, records };
}

/** Of npm's own configuration; undefined where it cannot be used as it stands. */
function registryOf(): URL | undefined {
  const text = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8', cwd: folder }).trim();
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url?.protocol === 'https:' && url.username === '' && url.port === '' ? url : undefined;
}

function pipIndexOf(): URL | undefined {
  const said = process.env['PIP_INDEX_URL'] ?? 'https://pypi.org/simple/';
  const url = URL.canParse(said) ? new URL(said) : undefined;
  return url?.protocol === 'https:' && url.username === '' && url.port === '' ? url : undefined;
}

/** A mirror may stand at an address that is nobody's public one; a rule has to say so. */
async function dialable(...hosts: readonly string[]): Promise<readonly object[]> {
  const addresses = (await Promise.all(hosts.map((host) => resolve4(host).catch(() => [])))).flat();
  return [...new Set(addresses)].map((address, index) => ({
    id: `dial-${index}`,
    cidrs: [`${address}/32`],
    private: true,
    ports: [443],
  }));
}

async function reaches(url: URL): Promise<boolean> {
  try {
    execFileSync('curl', ['-sS', '-o', '/dev/null', '-m', '20', url.href]);
    return true;
  } catch {
    return false;
  }
}

describe('registries of this host', () => {
  it('npm installs through opened TLS, reads only, and is denied elsewhere', async ({ skip }) => {
    const registry = registryOf();
    if (registry === undefined || !(await reaches(registry)))
      return skip('npm has no https registry that this host reaches');
    const rules = [{ id: 'npm', hosts: [registry.hostname], methods: ['GET'] }, ...(await dialable(registry.hostname))];
    const policy = policyOf('npm', 'container', rules);
    const install = `npm install --no-audit --no-fund --no-update-notifier --registry ${registry.href} is-number@7.0.0 && node -p 'require("is-number")(7)'`;
    const allowed = await run(policy, [], ['sh', '-c', install]);
    expect([
      allowed.status,
      allowed.stdout.trim().split('\n').at(-1),
      allowed.status === 0 ? '' : allowed.stderr,
    ]).toEqual([0, 'true', '']);
    expect(allowed.records).toContainEqual(
      expect.objectContaining({ kind: 'request', method: 'GET', verdict: 'allow', rule: 'npm', status: 200 }),
    );
    const denied = await run(
      policy,
      ['--network', 'deny'],
      ['sh', '-c', `npm view is-number version --fetch-retries 0 --registry ${registry.href}`],
    );
    expect(denied.status).not.toBe(0);
    expect(denied.stderr).toMatch(/ENOTFOUND|EAI_AGAIN/);
    expect(denied.records).toContainEqual(expect.objectContaining({ kind: 'dns', verdict: 'deny', code: 'mode_deny' }));
  });

  it('pip downloads a wheel through opened TLS', async ({ skip }) => {
    const index = pipIndexOf();
    if (index === undefined || !(await reaches(index))) return skip('pip has no https index that this host reaches');
    const files = 'files.pythonhosted.org';
    const hosts = [...new Set([index.hostname, files])];
    const policy = policyOf('pip', 'container', [
      { id: 'pip', hosts, methods: ['GET'] },
      ...(await dialable(...hosts)),
    ]);
    const download = [
      'python3',
      '-m',
      'pip',
      'download',
      '--no-deps',
      '--disable-pip-version-check',
      '--index-url',
      index.href,
      'six==1.16.0',
    ];
    const { status, stderr, records } = await run(policy, [], download);
    expect([status, status === 0 ? '' : stderr]).toEqual([0, '']);
    expect(
      records.filter(({ kind, verdict }) => kind === 'request' && verdict === 'allow').length,
    ).toBeGreaterThanOrEqual(2);
  });
});

const postgres = newestPostgres();

function newestPostgres(): string | undefined {
  const versions = existsSync('/usr/lib/postgresql') ? readdirSync('/usr/lib/postgresql') : [];
  const [newest] = versions.sort((a, b) => Number(b) - Number(a));
  return newest === undefined ? undefined : join('/usr/lib/postgresql', newest, 'bin');
}

describe('raw TCP', () => {
  it('psql talks to a PostgreSQL server by its name, and to no other port', async ({ skip }) => {
    if (postgres === undefined || !existsSync('/usr/bin/psql'))
      return skip('PostgreSQL and psql are not installed here (apt-get install postgresql)');
    const port = await freePort();
    const data = mkdtempSync(join(tmpdir(), 'sallyport-postgres-'));
    execFileSync('chown', ['postgres', data]);
    const asPostgres = (program: string, ...args: readonly string[]): string[] => [
      'setpriv',
      '--reuid=postgres',
      '--regid=postgres',
      '--clear-groups',
      join(postgres, program),
      ...args,
    ];
    const [make = '', ...makeArguments] = asPostgres(
      'initdb',
      '-D',
      data,
      '-A',
      'trust',
      '-U',
      'postgres',
      '--no-sync',
    );
    execFileSync(make, makeArguments, { stdio: 'pipe', cwd: '/tmp' });
    const [serve = '', ...serveArguments] = asPostgres(
      'postgres',
      '-D',
      data,
      '-p',
      String(port),
      '-c',
      'listen_addresses=127.0.0.1',
      '-c',
      `unix_socket_directories=${data}`,
    );
    const server = spawn(serve, serveArguments, { stdio: 'ignore', cwd: '/tmp' });
    const zone = await serveZone({ 'db.example': ['127.0.0.1'] });
    try {
      const rules = [
        { id: 'db', hosts: ['db.example'], protocol: 'tcp', ports: [port] },
        { id: 'loopback', cidrs: ['127.0.0.0/8'], private: true, ports: [port] },
      ];
      const policy = policyOf('postgres', 'process', rules);
      const query = (to: number): string[] => [
        'psql',
        '-h',
        'db.example',
        '-p',
        String(to),
        '-U',
        'postgres',
        '-tAc',
        'select 6 * 7',
      ];
      const retried = [
        'sh',
        '-c',
        `for i in 1 2 3 4 5 6 7 8 9 10; do ${query(port).slice(0, -1).join(' ')} 'select 6 * 7' && exit; sleep 0.5; done; exit 1`,
      ];
      const resolver = ['--resolver', `127.0.0.1:${zone.port}`];
      const { status, stdout, records } = await run(policy, resolver, retried);
      expect([status, stdout]).toEqual([0, '42\n']);
      expect(records).toContainEqual(
        expect.objectContaining({
          kind: 'connection',
          host: 'db.example',
          protocol: 'raw',
          rule: 'db',
          verdict: 'allow',
        }),
      );
      const denied = await run(policy, resolver, query(port === 65_535 ? port - 1 : port + 1));
      expect(denied.status).toBe(2);
      expect(denied.records).toContainEqual(expect.objectContaining({ code: 'wrong_port', verdict: 'deny' }));
    } finally {
      await zone.close();
      const ended = new Promise((resolve) => server.once('exit', resolve));
      server.kill('SIGQUIT');
      await ended;
      rmSync(data, { recursive: true, force: true });
    }
  });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
