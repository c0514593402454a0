/**
 * Who holds a thing on the host: a process named by pid *and* start time, so that a later process with the same
 * pid is never taken for it. What a dead owner held may be removed by anyone; what a living one holds, by nobody.
 */
import { readFileSync, statSync } from 'node:fs';

export interface Owner {
  readonly pid: number;
  /** Field 22 of /proc/<pid>/stat: clock ticks after boot. */
  readonly startTicks: string;
  /** /proc/sys/kernel/random/boot_id: start times count from it. */
  readonly bootId: string;
}

export function thisOwner(): Owner {
  const startTicks = startTicksOf(process.pid);
  if (startTicks === undefined) throw new Error('Cannot read /proc/self/stat: is /proc mounted?');
  return { pid: process.pid, startTicks, bootId: bootId() };
}

function isOwnerAlive(owner: Owner): boolean {
  return owner.bootId === bootId() && startTicksOf(owner.pid) === owner.startTicks;
}

export function ownerText(owner: Owner): string {
  return `${owner.pid} ${owner.startTicks} ${owner.bootId}\n`;
}

/** @returns undefined where the text is not an owner (a half-written file): nobody holds it */
function parseOwner(text: string): Owner | undefined {
  const match = /^(\d{1,10}) (\d{1,20}) ([0-9a-f-]{36})\n$/.exec(text);
  if (match === null) return undefined;
  const [, pid, startTicks, boot] = match;
  if (pid === undefined || startTicks === undefined || boot === undefined) return undefined;
  return { pid: Number(pid), startTicks, bootId: boot };
}

/** A file without an owner is being written just now, or was left by a full disk: after so long it is the second. */
const halfWrittenMs = 10_000;

/**
 * True where nobody alive holds what `ownerFile` stands for.
 * @param made file or folder whose age tells a half-written owner from a forgotten one
 */
export function isOrphaned(ownerFile: string, made: string): boolean {
  const owner = parseOwner(readText(ownerFile));
  if (owner !== undefined) return !isOwnerAlive(owner);
  const changedMs = statSync(made, { throwIfNoEntry: false })?.mtimeMs;
  return changedMs !== undefined && Date.now() - changedMs > halfWrittenMs;
}

/** '' where the file is not there. */
export function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
}

function startTicksOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // comm may hold spaces and parentheses: fields are counted from the last ')'
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // a zombie has ended: only its parent has not looked yet
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}
