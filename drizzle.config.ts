/** Read by drizzle-kit only, to write the next migration from the schema; migrations are applied by `pawl migrate`. */
import { defineConfig } from 'drizzle-kit';

export default defineConfig({ dialect: 'postgresql', schema: './src/postgres/schema.ts', out: './migrations' });
