import { defineConfig } from 'vitest/config';

const services = {
  globalSetup: ['test/support/global-setup.ts'],
  setupFiles: ['test/support/per-file.ts'],
  testTimeout: 30_000,
  hookTimeout: 60_000,
};

// Three projects: `unit` needs no service and stays fast; `services` runs against a real Postgres and, where found, a real
// Redis (test/support/find-services.ts says which). Worker processes are real there, so two files at a time are enough.
// `campaign` is the chaos campaign, which wants the machine for itself: `npm run chaos:short`.
export default defineConfig({
  test: {
    pool: 'forks',
    maxWorkers: 2,
    projects: [
      {
        test: {
          name: 'unit',
          // What a file imports is loaded once a process, not once a file: half of the time went into that.
          isolate: false,
          include: ['test/core/**/*.test.ts', 'test/unit/**/*.test.ts'],
        },
      },
      {
        test: {
          name: 'services',
          include: ['test/**/*.test.ts'],
          exclude: ['test/core/**', 'test/unit/**', 'test/chaos/*.test.ts'],
          ...services,
        },
      },
      { test: { name: 'campaign', include: ['test/chaos/*.test.ts'], ...services } },
    ],
  },
});
