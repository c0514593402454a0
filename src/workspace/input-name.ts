/** Names of inputs as the bytes they are. What was checked here is what is made in /inputs. */
import { resolve } from 'node:path';
import { displayName } from '../units/display-name.ts';
import { invalid } from './input-errors.ts';

const slash = 0x2f;

export function bytesOf(text: string | Buffer): Buffer {
  return typeof text === 'string' ? Buffer.from(text, 'utf8') : text;
}

/** "link/" would mean the folder behind the link, "link" is the link. */
export function withoutTrailingSlash(path: Buffer): Buffer {
  let end = path.length;
  while (end > 1 && path[end - 1] === slash) end -= 1;
  return path.subarray(0, end);
}

export function lastName(path: Buffer): Buffer {
  const trimmed = withoutTrailingSlash(path);
  return trimmed.subarray(trimmed.lastIndexOf(slash) + 1);
}

/** "." and ".." have no name of their own; the folder they stand for has. */
export function named(path: Buffer): Buffer {
  const name = lastName(path).toString('latin1');
  return name === '.' || name === '..' ? Buffer.from(resolve(path.toString())) : withoutTrailingSlash(path);
}

/** One name of a folder, as it will stand in /inputs. */
export function checkedName(name: Buffer): Buffer {
  const text = name.toString('latin1');
  if (text === '' || text === '.' || text === '..')
    throw invalid('an input needs a name of its own; name the folder, not "/"');
  if (name.includes(0) || name.includes(slash)) throw invalid(`the input name ${displayName(name)} holds NUL or "/"`);
  if (name.length > 255) throw invalid(`the input name ${displayName(name.subarray(0, 32))}… is longer than 255 bytes`);
  return name;
}
