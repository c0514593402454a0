/** Every command, in the order that the help shows them. */
import type { CommandDescription } from '../command.ts';
import { complete } from './complete.ts';
import { completion } from './completion.ts';
import { cp } from './cp.ts';
import { create } from './create.ts';
import { doctor } from './doctor.ts';
import { egressPhase } from './egress-phase.ts';
import { egressSuggest } from './egress-suggest.ts';
import { egressTighten } from './egress-tighten.ts';
import { exec } from './exec.ts';
import { explain } from './explain.ts';
import { imageBuild } from './image-build.ts';
import { imageList } from './image-list.ts';
import { info } from './info.ts';
import { keyCreate } from './key-create.ts';
import { keyList } from './key-list.ts';
import { keyRevoke } from './key-revoke.ts';
import { kill } from './kill.ts';
import { logs } from './logs.ts';
import { ls } from './ls.ts';
import { matrixReload } from './matrix-reload.ts';
import { matrixShow } from './matrix-show.ts';
import { run } from './run.ts';
import { shell } from './shell.ts';
import { up } from './up.ts';
import { version } from './version.ts';

export const commands: readonly CommandDescription[] = [
  run,
  up,
  create,
  exec,
  shell,
  ls,
  info,
  logs,
  cp,
  kill,
  explain,
  egressPhase,
  egressTighten,
  egressSuggest,
  matrixShow,
  matrixReload,
  doctor,
  imageList,
  imageBuild,
  keyCreate,
  keyList,
  keyRevoke,
  completion,
  version,
  complete,
];

/** What the groups of commands are about. */
export const groups: Readonly<Record<string, string>> = {
  egress: 'the way out of a running sandbox',
  matrix: 'the permission matrix',
  image: 'images of sandboxes',
  key: 'API keys',
};
