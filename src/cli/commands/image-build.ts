/** Builds an image from its recipe. */
import type { CommandDescription } from '../command.ts';
import { homeOption, jsonOption } from '../shared-options.ts';

export const imageBuild: CommandDescription = {
  name: 'image build',
  summary: 'build an image from its recipe, unless it is there',
  arguments: [{ name: '[name]', summary: 'the image; default base' }],
  options: [
    { flags: '--locked', summary: 'fail when the packages differ from the committed lock' },
    { flags: '--update-lock', summary: 'write what was built into the lock beside the recipe' },
    jsonOption,
    homeOption,
  ],
  load: () => import('../actions/image-build.ts'),
};
