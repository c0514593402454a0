/** `sallyport cp`: files and folders between this machine and a sandbox. */
import { formatBytes } from '../../units/bytes.ts';
import type { ApiClient } from '../api/client.ts';
import { argumentBytes } from '../argument-bytes.ts';
import type { Action } from '../command.ts';
import { download } from '../copy/download.ts';
import { type Place, parsePlace } from '../copy/place.ts';
import { RemoteFiles } from '../copy/remote-files.ts';
import { CopyReport } from '../copy/report.ts';
import { upload } from '../copy/upload.ts';
import { write, writeJson } from '../terminal/write.ts';
import { UsageError } from '../usage-error.ts';
import { withClient } from './with-client.ts';

export const run: Action = (context, { arguments: places, options }) =>
  withClient(context, options, async (client) => {
    const [from = '', to = ''] = argumentBytes(places);
    const report = new CopyReport(context.stderr);
    await copy(client, parsePlace(from), parsePlace(to), report);
    const { files, bytes } = report;
    if (options.flag('json')) await writeJson(context.stdout, { files, bytes });
    else await write(context.stderr, `copied ${files} ${files === 1 ? 'file' : 'files'}, ${formatBytes(bytes)}\n`);
    return undefined;
  });

function copy(client: ApiClient, from: Place, to: Place, report: CopyReport): Promise<void> {
  if (from.kind === 'local' && to.kind === 'sandbox') {
    return upload(from.path, new RemoteFiles(client, to.id), remotePath(to.path), report);
  }
  if (from.kind === 'sandbox' && to.kind === 'local') {
    return download(new RemoteFiles(client, from.id), remotePath(from.path), to.path, report);
  }
  throw new UsageError('one of the two must be <id>:<path>, and the other a path of this machine');
}

/** `<id>:` is the working folder. */
function remotePath(path: Buffer): Buffer {
  return path.length === 0 ? Buffer.from('./') : path;
}
