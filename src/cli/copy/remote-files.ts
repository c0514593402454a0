/** The files of one sandbox over the API. */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { SallyportError } from '../../errors/error.ts';
import type { ApiClient } from '../api/client.ts';

export interface RemoteEntry {
  readonly path: Buffer;
  readonly kind: string;
  readonly mode: number;
  readonly bytes: number;
}

interface WireEntry {
  readonly path_b64: string;
  readonly kind: string;
  readonly mode: number;
  readonly bytes: number;
}

export class RemoteFiles {
  readonly #client: ApiClient;
  readonly #base: string;

  constructor(client: ApiClient, sandboxId: string) {
    this.#client = client;
    this.#base = `/v1/sandboxes/${sandboxId}/files`;
  }

  /** @returns undefined when nothing is there */
  async stat(path: Buffer): Promise<RemoteEntry | undefined> {
    try {
      return entryOf(await this.#client.json<WireEntry>('GET', `${this.#base}/stat?${query(path)}`));
    } catch (thrown) {
      if (thrown instanceof SallyportError && thrown.code === 'file_not_found') return undefined;
      throw thrown;
    }
  }

  /** Everything below a folder, paths relative to it. @throws SallyportError `invalid_request` when it is too much */
  async listAll(path: Buffer): Promise<RemoteEntry[]> {
    const url = `${this.#base}?${query(path)}&depth=64&max=100000`;
    const list = await this.#client.json<{ entries: WireEntry[]; truncated: boolean }>('GET', url);
    if (!list.truncated) return list.entries.map(entryOf);
    throw new SallyportError('invalid_request', 'Cannot copy the folder: it has more than 100000 entries');
  }

  read(path: Buffer): Promise<IncomingMessage> {
    return this.#client.open('GET', `${this.#base}/content?${query(path)}`);
  }

  async write(path: Buffer, body: Readable, mode: number): Promise<void> {
    const url = `${this.#base}/content?${query(path)}&mode=${mode.toString(8).padStart(4, '0')}`;
    await this.#client.json('PUT', url, { body });
  }

  async makeFolder(path: Buffer): Promise<void> {
    await this.#client.json('POST', `${this.#base}/mkdir`, {
      json: { path_b64: path.toString('base64'), parents: true },
    });
  }
}

function query(path: Buffer): string {
  return `path_b64=${path.toString('base64url')}`;
}

function entryOf({ path_b64, kind, mode, bytes }: WireEntry): RemoteEntry {
  return { path: Buffer.from(path_b64, 'base64'), kind, mode, bytes };
}
