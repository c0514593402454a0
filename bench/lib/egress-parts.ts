/** What the egress measure runs beside the daemon: an upstream, a bare Node splice, a resolver, and the text of the client. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decode, encode, type Packet } from 'dns-packet';

export const benchHost = 'bench.example';

/** HTTPS on two ports: /small answers a few bytes, /bytes/<n> that many, /hold keeps the answer open. */
const upstreamText = `
const { readFileSync } = require('fs');
const https = require('https');
const [folder] = process.argv.slice(1);
const options = { cert: readFileSync(folder + '/leaf.pem'), key: readFileSync(folder + '/leaf.key') };
const chunk = Buffer.alloc(256 * 1024);
const serve = (request, response) => {
  const bytes = Number(/^\\/bytes\\/(\\d+)/.exec(request.url)?.[1] ?? -1);
  if (request.url === '/hold') return response.writeHead(200).write('held');
  if (bytes < 0) return response.end('small answer\\n');
  response.writeHead(200, { 'content-length': bytes });
  let left = bytes;
  const more = () => {
    while (left > 0) {
      const piece = left >= chunk.length ? chunk : chunk.subarray(0, left);
      left -= piece.length;
      if (!response.write(piece)) return response.once('drain', more);
    }
    response.end();
  };
  more();
};
const servers = [0, 0].map((port) => https.createServer(options, serve).listen(port, '127.0.0.1'));
let ready = 0;
for (const server of servers) server.on('listening', () => {
  if (++ready === 2) console.log(JSON.stringify(servers.map((each) => each.address().port)));
});`;

/** The most a Node program can splice, with nothing in between: what "direct loopback of a Node splice" means. */
const spliceText = `
const net = require('net');
const [to] = process.argv.slice(1);
net.createServer({ allowHalfOpen: true, noDelay: true }, (inside) => {
  const outside = net.connect({ port: Number(to), host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
  inside.pipe(outside); outside.pipe(inside);
  inside.on('error', () => outside.destroy()); outside.on('error', () => inside.destroy());
}).listen(0, '127.0.0.1', function () { console.log(this.address().port); });`;

/** Prints one line of JSON. Modes: \`requests n\` on one connection, \`connections n\`, \`download bytes\`, \`hold n\` for ten seconds. */
export const clientText = `
const https = require('https');
const [host, port, mode, count] = process.argv.slice(1);
const base = { host, port: Number(port), servername: '${benchHost}', rejectUnauthorized: false, headers: { host: '${benchHost}:' + process.argv[5] } };
const get = (path, agent) => new Promise((done, fail) => {
  const began = process.hrtime.bigint();
  https.get({ ...base, path, agent }, (answer) => {
    let bytes = 0;
    answer.on('data', (piece) => { bytes += piece.length; });
    answer.on('end', () => answer.statusCode === 200 ? done({ ms: Number(process.hrtime.bigint() - began) / 1e6, bytes }) : fail(new Error('status ' + answer.statusCode)));
  }).on('error', fail);
});
const hold = (agent) => new Promise((done, fail) => https.get({ ...base, path: '/hold', agent }, (answer) => answer.once('data', done)).on('error', fail));
(async () => {
  const agent = new https.Agent({ keepAlive: true, maxSockets: mode === 'hold' ? Infinity : 1 });
  if (mode === 'download') return console.log(JSON.stringify(await get('/bytes/' + count, agent)));
  if (mode === 'hold') {
    for (let made = 0; made < Number(count); made += 50) await Promise.all(Array.from({ length: 50 }, () => hold(agent)));
    console.log('held');
    return setTimeout(() => process.exit(), 10000);
  }
  const samples = [];
  await get('/small', agent);
  for (let index = 0; index < Number(count); index++) samples.push((await get('/small', mode === 'requests' ? agent : false)).ms);
  console.log(JSON.stringify(samples));
  process.exit();
})().catch((error) => { console.error(error.message); process.exit(1); });`;

export interface Parts {
  readonly folder: string;
  /** Two ports of one upstream: the policy has one sealed and one opened. */
  readonly ports: readonly [number, number];
  readonly splicePort: number;
  readonly resolver: string;
  close(): void;
}

export async function startParts(): Promise<Parts> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-bench-egress-'));
  makeCertificates(folder);
  const upstream = spawn(process.execPath, ['-e', upstreamText, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ports = JSON.parse(await firstLine(upstream)) as [number, number];
  const splice = spawn(process.execPath, ['-e', spliceText, String(ports[0])], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const splicePort = Number(await firstLine(splice));
  const resolver = createSocket('udp4').on('message', (message, from) => {
    resolver.send(answerTo(decode(message)), from.port, from.address);
  });
  resolver.bind(0, '127.0.0.1');
  await once(resolver, 'listening');
  return {
    folder,
    ports,
    splicePort,
    resolver: `127.0.0.1:${resolver.address().port}`,
    close: () => {
      upstream.kill();
      splice.kill();
      resolver.close();
      rmSync(folder, { recursive: true });
    },
  };
}

function answerTo({ id = 0, questions = [] }: Packet): Buffer {
  const answers = questions
    .filter(({ type }) => type === 'A')
    .map(({ name }) => ({ name, type: 'A', ttl: 0, data: '127.0.0.1' }) as const);
  return encode({ type: 'response', id, flags: 0x0180, questions, answers });
}

function makeCertificates(folder: string): void {
  const openssl = (line: string): unknown => execFileSync('openssl', line.split(' '), { cwd: folder, stdio: 'pipe' });
  const key = '-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes';
  openssl(`req -x509 ${key} -keyout ca.key -out ca.pem -days 2 -subj /CN=bench`);
  writeFileSync(join(folder, 'leaf.ext'), `subjectAltName=DNS:${benchHost}\n`);
  openssl(`req ${key} -keyout leaf.key -out leaf.csr -subj /CN=${benchHost}`);
  openssl('x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out leaf.pem -days 2 -extfile leaf.ext');
}

export async function firstLine(child: ChildProcess): Promise<string> {
  let text = '';
  for await (const chunk of child.stdout ?? []) {
    text += chunk;
    if (text.includes('\n')) return text.split('\n')[0] ?? '';
  }
  throw new Error('the program ended before it was ready');
}
