/** The sinkhole's small clients, put into a sandbox and run there through the API. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Api } from './daemon.ts';

const folder = fileURLToPath(new URL('sinkhole/clients', import.meta.url));

export interface Shelled {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface Answer {
  readonly stdout: { readonly text?: string };
  readonly stderr: { readonly text?: string };
  readonly result: { readonly exitCode: number | null };
}

export interface Clients {
  /** One of the clients; @returns what it tells */
  readonly client: (...words: readonly string[]) => Promise<Readonly<Record<string, unknown>>>;
  readonly shell: (script: string) => Promise<Shelled>;
}

export async function openClients(api: Api, id: string): Promise<Clients> {
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.py'))) {
    const query = new URLSearchParams({ path: `clients/${name}`, parents: 'true' });
    const answer = await api.call('PUT', `/v1/sandboxes/${id}/files/content?${query}`, {
      body: readFileSync(join(folder, name)),
      headers: { 'content-type': 'application/octet-stream' },
    });
    if (answer.status >= 300) throw new Error(`cannot upload ${name}: ${answer.status} ${answer.body}`);
  }
  const exec = async (argv: readonly string[]): Promise<Shelled> => {
    const answer = await api.json<Answer>('POST', `/v1/sandboxes/${id}/exec`, { argv, timeoutMs: 40_000 });
    return {
      exitCode: answer.result.exitCode,
      stdout: answer.stdout.text ?? '',
      stderr: answer.stderr.text ?? '',
    };
  };
  return {
    shell: (script) => exec(['sh', '-c', script]),
    client: async (...words) => {
      const { stdout, stderr, exitCode } = await exec(['python3', '-B', 'clients', ...words]);
      if (exitCode !== 0) throw new Error(`clients ${words.join(' ')}: ${exitCode} ${stderr}`);
      return JSON.parse(stdout) as Record<string, unknown>;
    },
  };
}
