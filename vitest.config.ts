import { defineConfig } from 'vitest/config';

// Two projects: `unit` needs no service and stays fast; `services` runs against a real Postgres and, where found, a real
// Redis (test/support/find-services.ts says which). Worker processes are real there, so two files at a time are enough.
export default defineConfig({
  test: {
    pool: 'forks',
    maxWorkers: 2,
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/core/**/*.test.ts', 'test/unit/**/*.test.ts'],
        },
      },
      {
        test: {
          name: 'services',
          include: ['test/**/*.test.ts'],
          exclude: ['test/core/**', 'test/unit/**'],
          globalSetup: ['test/support/global-setup.ts'],
          setupFiles: ['test/support/per-file.ts'],
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
