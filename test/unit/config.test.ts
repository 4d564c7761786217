import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { loadSettings, readSettings, resolveModels } from '../../src/config.js';
import { defineConfig } from '../../src/core/config.js';
import { PawlError } from '../../src/core/errors.js';

const environment = { ...process.env };
const folders: string[] = [];

afterEach(() => {
  process.env = { ...environment };
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function folderWith(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'pawl-config-'));
  folders.push(folder);
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  return folder;
}

function refusal(read: () => unknown): string {
  try {
    read();
  } catch (thrown) {
    if (thrown instanceof PawlError && thrown.code === 'config_invalid') return thrown.message;
    throw thrown;
  }
  throw new Error('nothing was refused');
}

it('has a default for everything', () => {
  const { settings, warnings } = readSettings({});
  expect(warnings).toEqual([]);
  expect(settings).toMatchObject({
    databaseUrl: null,
    redisUrl: null,
    openai: { apiKey: null, baseUrl: null, model: 'gpt-4o-mini' },
    proxy: null,
    configFile: null,
    host: '127.0.0.1',
    port: 3_900,
    queues: null,
    heartbeatMs: 2_000,
    deathMs: 8_000,
    logLevel: 'info',
    logDir: null,
  });
});

it('reads what is given, and takes an empty variable for none', () => {
  const { settings } = readSettings({
    DATABASE_URL: 'postgres://u:p@h:5433/db',
    REDIS_URL: '',
    PAWL_PORT: ' 0 ',
    PAWL_QUEUES: 'llm, cards',
    PAWL_LOG_LEVEL: 'WARN',
    PAWL_HEARTBEAT_MS: '4000',
    https_proxy: 'http://proxy:3128',
    NO_PROXY: 'localhost',
  });
  expect(settings).toMatchObject({
    databaseUrl: 'postgres://u:p@h:5433/db',
    redisUrl: null,
    port: 0,
    queues: ['llm', 'cards'],
    logLevel: 'warn',
    deathMs: 16_000,
    proxy: { httpsProxy: 'http://proxy:3128', noProxy: 'localhost' },
  });
});

it('reports all problems together, each with the value that was given', () => {
  const message = refusal(() =>
    readSettings({
      PAWL_PORT: 'abc',
      PAWL_CONCURRENCY: '-1',
      PAWL_LOG_LEVEL: 'loud',
      OPENAI_BASE_URL: 'localhost:8080',
    }),
  );
  expect(message.split('\n')).toEqual([
    'the environment cannot be used: ',
    '- OPENAI_BASE_URL must be a URL with http:// or https://, not "localhost:8080"',
    '- PAWL_PORT must be a whole number from 0 to 65535, not "abc"',
    '- PAWL_CONCURRENCY must be a whole number from 1 to 1000, not "-1"',
    '- PAWL_LOG_LEVEL must be one of debug, info, warn, error, silent, not "loud"',
  ]);
});

it('shows neither a key nor a password with its complaint', () => {
  const message = refusal(() =>
    readSettings({
      OPENAI_API_KEY: 'sk-my key',
      DATABASE_URL: 'mysql://root:hunter22@h/db',
      REDIS_URL: 'redis://:p@ss#word@h',
      PAWL_SMTP_URL: 'https://me:hunter23@h',
    }),
  );
  expect(message).toContain('OPENAI_API_KEY must be a key without spaces, not (not shown)');
  expect(message).toContain('mysql://root:[redacted]@h/db');
  for (const secret of ['my key', 'hunter22', 'ss#word', 'hunter23']) expect(message).not.toContain(secret);
});

it('refuses a death verdict that comes before a second heartbeat could', () => {
  const given = { PAWL_HEARTBEAT_MS: '2000', PAWL_DEATH_MS: '3000' };
  expect(refusal(() => readSettings(given))).toBe(
    'the environment cannot be used: PAWL_DEATH_MS must be at least 3 times PAWL_HEARTBEAT_MS (2000), not "3000"',
  );
});

it('warns of names that look like settings and are none', () => {
  const { warnings } = readSettings({ PAWL_PROT: '1', PAWL_WHATEVER_THIS_IS: '1', PAWL_TEST_FSYNC: 'off', OTHER: '1' });
  expect(warnings).toEqual([
    'PAWL_PROT is no setting of Pawl (did you mean PAWL_PORT?); it is ignored',
    'PAWL_WHATEVER_THIS_IS is no setting of Pawl; it is ignored',
  ]);
});

it('knows what no log may show', () => {
  const { settings } = readSettings({
    DATABASE_URL: 'postgres://app:hunter%2222@h/db',
    REDIS_URL: 'redis://postgres:postgres@h',
    DEEPSEEK_KEY: 'abcdefgh1234',
    GITHUB_TOKEN: 'ghp_abcdef',
    HOME: '/home/someone',
  });
  expect([...settings.secrets].sort()).toEqual(['abcdefgh1234', 'ghp_abcdef', 'hunter"22', 'hunter%2222']);
});

it('fills in from .env what the environment leaves out, also beside a config elsewhere', () => {
  const elsewhere = folderWith({ '.env': 'PAWL_HOST=0.0.0.0\nOPENAI_MODEL=other\nUSER_OWN="kept"' });
  const folder = folderWith({
    '.env': `# a comment\nexport PAWL_PORT=4000\nOPENAI_MODEL='mine'\nPAWL_CONFIG=${join(elsewhere, 'pawl.config.ts')}`,
  });
  process.env = { PAWL_PORT: '5000' };
  const { settings } = loadSettings(folder);
  expect(settings).toMatchObject({ port: 5_000, host: '0.0.0.0', openai: { model: 'mine' } });
  expect(process.env.USER_OWN).toBe('kept');
});

it('says which .env it cannot read', () => {
  const folder = folderWith({});
  expect(refusal(() => loadSettings(join(folder, 'x\0y')))).toContain('.env cannot be read');
});

it('takes the keys of models from the variables they name, and names one that is missing', () => {
  const { models } = defineConfig({
    agents: [],
    models: {
      deep: { baseUrl: 'https://d.example/v1', apiKeyEnv: 'DEEP_KEY', priceUsdPerMTok: { input: 1, output: 2 } },
      local: { contextTokens: 8_000, dialect: { temperature: false } },
    },
  });
  expect(resolveModels(models, { DEEP_KEY: ' k1 ' })).toEqual({
    deep: {
      baseUrl: 'https://d.example/v1',
      apiKey: 'k1',
      priceUsdPerMTok: { input: 1, cachedInput: 1, output: 2 },
    },
    local: { contextTokens: 8_000, dialect: { temperature: false } },
  });
  expect(refusal(() => resolveModels(models, {}))).toBe(
    'DEEP_KEY is not set, and the model deep takes its key from there',
  );
});
