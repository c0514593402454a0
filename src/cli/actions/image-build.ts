/** `sallyport image build`: progress on stderr, the digest (or the report, with --json) on stdout. */
import { openHostSide } from '../../host/host-side.ts';
import type { Action } from '../command.ts';
import { homeOf } from '../home.ts';
import { write, writeJson } from '../terminal/write.ts';

export const run: Action = async (context, { arguments: [name = 'base'], options }) => {
  const host = openHostSide({ home: homeOf(context, options) });
  try {
    const report = await host.buildImage(name, {
      locked: options.flag('locked'),
      updateLock: options.flag('updateLock'),
      onProgress: (line) => void context.stderr.write(`${line}\n`),
    });
    if (options.flag('json')) await writeJson(context.stdout, report);
    else await write(context.stdout, `${report.digest}\n`);
    return undefined;
  } finally {
    await host.close();
  }
};
