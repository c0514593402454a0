/** `sallyport image list`: the images of this host, by digest. */
import { openHostSide } from '../../host/host-side.ts';
import type { Action } from '../command.ts';
import { homeOf } from '../home.ts';
import { renderTable } from '../terminal/table.ts';
import { write, writeJson } from '../terminal/write.ts';

export const run: Action = async (context, { options }) => {
  const host = openHostSide({ home: homeOf(context, options) });
  try {
    const images = await host.listImages();
    const rows = images.map(({ name, digest, packages, builtAt }) => [
      name,
      digest,
      `${packages ?? '—'}`,
      builtAt ?? '—',
    ]);
    if (options.flag('json')) await writeJson(context.stdout, images);
    else await write(context.stdout, renderTable(['NAME', 'DIGEST', 'PACKAGES', 'BUILT'], rows));
    return undefined;
  } finally {
    await host.close();
  }
};
