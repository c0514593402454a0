/** The images of this host. */
import type { CommandDescription } from '../command.ts';
import { homeOption, jsonOption } from '../shared-options.ts';

export const imageList: CommandDescription = {
  name: 'image list',
  summary: 'list the images of this host',
  options: [jsonOption, homeOption],
  load: () => import('../actions/image-list.ts'),
};
