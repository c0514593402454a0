/** Why a sandbox or a command ended, as one sentence for people, with the value of the limit that struck. */
import type { Grant } from '../admission/grant.ts';
import { formatBytes } from '../units/bytes.ts';
import { formatDuration } from '../units/duration.ts';
import type { EndReason } from './types.ts';

type Sentence = (grant: Pick<Grant, 'limits' | 'lifetime'>) => string;

const sentences: Readonly<Record<EndReason, Sentence>> = {
  finished: () => 'The work was done.',
  killed: () => 'The sandbox was killed by its caller.',
  wall: ({ lifetime }) => `The sandbox lived for ${formatDuration(lifetime.wallMs)}, its longest life.`,
  idle: ({ lifetime }) => `Nothing ran in the sandbox for ${formatDuration(lifetime.idleMs)}.`,
  oom: ({ limits }) =>
    `The sandbox needed more than ${formatBytes(limits.memoryBytes)} of memory; the kernel killed a process of it.`,
  disk: ({ limits }) => `The workspace is full: ${formatBytes(limits.diskBytes)} or ${limits.inodes} inodes are used.`,
  output: ({ limits }) => `The command wrote more than ${formatBytes(limits.outputBytes)} to stdout and stderr.`,
  pids: ({ limits }) => `The sandbox wanted more than ${limits.pids} processes and threads.`,
  'init-lost': () => "The sandbox's init is gone.",
  'daemon-stop': () => 'The daemon stopped.',
  platform: () => 'The platform failed.',
};

export function endSentence(reason: EndReason, grant: Pick<Grant, 'limits' | 'lifetime'>): string {
  return sentences[reason](grant);
}
