/** `sallyport image list`: the images of this host, by digest. */
import { openHostSide } from '../../host/host-side.ts';
import type { Action } from '../command.ts';
import { homeOf } from '../home.ts';
import { renderTable } from '../terminal/table.ts';
import { write, writeJson } from '../terminal/write.ts';

export const run: Action = async (context, { options }) => {
  const host = openHostSide({ home: homeOf(context, options) });
  try {
    const images = [...(await host.images())].map(([name, digest]) => ({ name, digest }));
    const rows = images.map(({ name, digest }) => [name, digest]);
    if (options.flag('json')) await writeJson(context.stdout, images);
    else await write(context.stdout, renderTable(['NAME', 'DIGEST'], rows));
    return undefined;
  } finally {
    await host.close();
  }
};
