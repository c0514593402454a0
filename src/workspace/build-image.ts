/**
 * `node dist/workspace/build-image.js <name> [--locked | --update-lock]`: builds one image into SALLYPORT_HOME, for scripts/setup. Says
 * each step on stderr and the digest on stdout.
 */
import { asSallyportError } from '../errors/error.ts';
import { openImageStore } from './image-store.ts';

const home = process.env['SALLYPORT_HOME'] ?? '/var/lib/sallyport';
const [name = 'base', ...flags] = process.argv.slice(2);

try {
  const report = await openImageStore(home).build(name, {
    locked: flags.includes('--locked'),
    updateLock: flags.includes('--update-lock'),
    onProgress: (line) => console.error(line),
  });
  console.log(report.digest);
} catch (thrown) {
  const { code, message, next } = asSallyportError(thrown).toJSON();
  console.error(`${code}: ${message}\n${next}`);
  process.exitCode = 1;
}
