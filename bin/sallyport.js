#!/usr/bin/env node
/** Starts the built command line. In a fresh clone there is none yet, and that is said. */
import { existsSync } from 'node:fs';

const main = new URL('../dist/cli/main.js', import.meta.url);

if (!existsSync(main)) {
  process.stderr.write('sallyport: it is not built yet\nnext: Run "scripts/setup" (or "npm ci && npm run build").\n');
  process.exit(1);
}

const { main: run } = await import(main.href);
// A reader that goes away is told to the writer by its next write; without a listener the event would end us.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
process.exit(await run(process.argv.slice(2)));
