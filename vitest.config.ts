import { defineConfig } from 'vitest/config';

/**
 * Two projects: `unit` needs nothing but Node; `system` starts real sandboxes (root, crun, images) and so runs
 * one file at a time: the tests count processes, mounts and cgroups of the host before and after.
 */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts', 'test/unit/**/*.test.ts'],
          exclude: ['src/**/*.system.test.ts'],
        },
      },
      {
        test: {
          name: 'system',
          include: ['src/**/*.system.test.ts', 'test/system/**/*.test.ts'],
          fileParallelism: false,
          testTimeout: 60_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
