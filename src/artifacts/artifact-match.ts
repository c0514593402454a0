/**
 * Which files of the workdir a caller meant: globs over the names that init listed. Names are bytes; they are
 * matched as Latin-1 so that each byte is one character and no two names become one.
 */
import picomatch from 'picomatch';
import { SallyportError } from '../errors/error.ts';

export interface ArtifactPattern {
  readonly glob: string;
  /** Folder below which the glob can match, relative to the workdir; '' = the workdir itself. */
  readonly base: string;
  /** Levels below `base` that have to be listed. */
  readonly depth: number;
  matches(path: Buffer): boolean;
}

const deepest = 64;
/** A glob is a backtracking match over names that the sandbox chose: so many stars a part, so many `**`, keep it quick. */
const starsPerPart = 2;
const globStars = 2;

/** @throws SallyportError `invalid_request` for an absolute, climbing or empty pattern */
export function parseArtifactPattern(glob: string): ArtifactPattern {
  const refuse = (why: string): never => {
    throw new SallyportError('invalid_request', `Cannot use the artifact pattern ${JSON.stringify(glob)}: ${why}`);
  };
  if (glob === '' || glob.includes('\0')) refuse('it is empty or holds a NUL');
  if (glob.startsWith('/')) refuse('it must be relative to the working folder');
  if (glob.split('/').includes('..')) refuse('".." is not allowed');
  const parts = glob.split('/');
  if (parts.filter((part) => part.includes('**')).length > globStars) refuse(`it has more than ${globStars} "**"`);
  if (parts.some((part) => part !== '**' && (part.match(/\*+|\+\(|@\(|!\(/g) ?? []).length > starsPerPart))
    refuse(`a part of it has more than ${starsPerPart} stars`);
  const wire = Buffer.from(glob, 'utf8').toString('latin1');
  const { base, glob: rest } = picomatch.scan(wire);
  const isMatch = picomatch(wire, { dot: true, nonegate: true, bash: false });
  const isLiteral = rest === '';
  return {
    glob,
    base: Buffer.from(isLiteral ? parentOf(wire) : base, 'latin1').toString('utf8'),
    depth: isLiteral ? 1 : depthOf(rest),
    matches: (path) => isMatch(path.toString('latin1')),
  };
}

function parentOf(path: string): string {
  const slash = path.lastIndexOf('/');
  return slash === -1 ? '' : path.slice(0, slash);
}

function depthOf(glob: string): number {
  return glob.includes('**') ? deepest : Math.min(deepest, glob.split('/').length);
}
