/**
 * The environment, read here and nowhere else: one schema, all problems reported together, each with the value that was
 * given. A `.env` file fills in what the environment leaves out. Next: config-file.ts for pawl.config.ts, app.ts for use.
 */
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parse as parseDotenv } from 'dotenv';
import { z } from 'zod';
import type { ModelSettings } from './core/config.js';
import { describeThrown, PawlError } from './core/errors.js';
import { didYouMean } from './core/nearest.js';
import { isSecretName, maskSecrets } from './core/secrets.js';

const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;
type LogLevel = (typeof logLevels)[number];

export type Environment = Readonly<Record<string, string | undefined>>;

/** A variable: what it must be, in words, and how its text is read (undefined: it cannot be). */
function variable<T>(expected: string, read: (text: string) => T | undefined) {
  return z
    .string()
    .optional()
    .transform((text, context) => {
      if (text === undefined) return null;
      const value = read(text.trim());
      if (value !== undefined) return value;
      context.addIssue({ code: 'custom', message: expected });
      return z.NEVER;
    });
}

const text = (expected: string, pattern: RegExp) =>
  variable(expected, (given) => (pattern.test(given) ? given : undefined));
const anyText = (expected: string) => text(expected, /./);
const url = (expected: string, scheme: RegExp) =>
  variable(expected, (given) => (scheme.test(given) && URL.canParse(given) ? given : undefined));
const integer = (min: number, max: number) =>
  variable(`a whole number from ${min} to ${max}`, (given) => {
    const number = /^\d{1,15}$/.test(given) ? Number(given) : Number.NaN;
    return number >= min && number <= max ? number : undefined;
  });
const oneOf = <const T extends string>(values: readonly T[]) =>
  variable(`one of ${values.join(', ')}`, (given) => values.find((value) => value === given.toLowerCase()));

const httpUrl = url('a URL with http:// or https://', /^https?:\/\//i);
const day = 24 * 3_600_000;

const schema = z.object({
  DATABASE_URL: url(
    'a URL with postgres:// (special characters of the password percent-encoded)',
    /^postgres(ql)?:\/\//i,
  ),
  REDIS_URL: url(
    'a URL with redis:// or rediss:// (special characters of the password percent-encoded)',
    /^rediss?:\/\//i,
  ),
  OPENAI_API_KEY: text('a key without spaces', /^[\x21-\x7e]+$/),
  OPENAI_BASE_URL: httpUrl,
  OPENAI_MODEL: text("a model's name, without spaces", /^\S{1,200}$/),
  HTTPS_PROXY: httpUrl,
  HTTP_PROXY: httpUrl,
  NO_PROXY: anyText('a list of hosts'),
  PAWL_CONFIG: anyText('the path of a file'),
  PAWL_HOST: text('a host name or an address', /^[\w.:-]+$/),
  PAWL_PORT: integer(0, 65_535),
  PAWL_API_KEY: text('a key of at least 16 characters, without spaces', /^[\x21-\x7e]{16,}$/),
  PAWL_CONCURRENCY: integer(1, 1_000),
  PAWL_QUEUES: variable('names of queues, with commas between', readQueues),
  PAWL_SHUTDOWN_MS: integer(0, day),
  PAWL_HEARTBEAT_MS: integer(50, 60_000),
  PAWL_DEATH_MS: integer(200, 600_000),
  PAWL_LOG_LEVEL: oneOf(logLevels),
  PAWL_LOG_DIR: anyText('the path of a folder'),
  PAWL_SMTP_URL: url('a URL with smtp:// or smtps://', /^smtps?:\/\//i),
  PAWL_MAIL_FROM: text('a mail address', /^[^\s@]+@[^\s@]+$/),
  PAWL_MAIL_TO: text('a mail address', /^[^\s@]+@[^\s@]+$/),
});

export interface Settings {
  /** Null: the embedded Postgres. */
  databaseUrl: string | null;
  /** Null: the queue lives in Postgres. */
  redisUrl: string | null;
  openai: { apiKey: string | null; baseUrl: string | null; model: string };
  /** Null: no proxy. */
  proxy: { httpsProxy?: string; httpProxy?: string; noProxy?: string } | null;
  /** As given; null: the usual names are tried. */
  configFile: string | null;
  host: string;
  port: number;
  /** What callers of the server must bring; null: loopback alone is served, without a key. */
  apiKey: string | null;
  /** Deliveries at once for each queue. */
  concurrency: number;
  queues: readonly string[] | null;
  shutdownMs: number;
  heartbeatMs: number;
  deathMs: number;
  logLevel: LogLevel;
  logDir: string | null;
  mail: { smtpUrl: string | null; from: string | null; to: string | null };
  /** Values that no log may show. */
  secrets: readonly string[];
}

/** Reads the settings; throws one PawlError with every problem. `warnings`: names that look like settings and are none. */
export function readSettings(environment: Environment): { settings: Settings; warnings: string[] } {
  const given = namedSettings(environment);
  const parsed = schema.safeParse(given);
  if (!parsed.success) {
    throw refusalOf(parsed.error.issues.map((issue) => problem(String(issue.path[0]), given, issue.message)));
  }
  const read = parsed.data;
  const heartbeatMs = read.PAWL_HEARTBEAT_MS ?? 2_000;
  const deathMs = read.PAWL_DEATH_MS ?? Math.max(8_000, heartbeatMs * 4);
  if (deathMs < heartbeatMs * 3) {
    const least = `at least 3 times PAWL_HEARTBEAT_MS (${heartbeatMs})`;
    throw refusalOf([problem('PAWL_DEATH_MS', { PAWL_DEATH_MS: String(deathMs) }, least)]);
  }
  const settings: Settings = {
    databaseUrl: read.DATABASE_URL,
    redisUrl: read.REDIS_URL,
    openai: { apiKey: read.OPENAI_API_KEY, baseUrl: read.OPENAI_BASE_URL, model: read.OPENAI_MODEL ?? 'gpt-4o-mini' },
    proxy: proxyOf(read),
    configFile: read.PAWL_CONFIG,
    host: read.PAWL_HOST ?? '127.0.0.1',
    port: read.PAWL_PORT ?? 3_900,
    apiKey: read.PAWL_API_KEY,
    concurrency: read.PAWL_CONCURRENCY ?? 10,
    queues: read.PAWL_QUEUES,
    shutdownMs: read.PAWL_SHUTDOWN_MS ?? 25_000,
    heartbeatMs,
    deathMs,
    logLevel: read.PAWL_LOG_LEVEL ?? 'info',
    logDir: read.PAWL_LOG_DIR,
    mail: { smtpUrl: read.PAWL_SMTP_URL, from: read.PAWL_MAIL_FROM, to: read.PAWL_MAIL_TO },
    secrets: secretsOf(environment),
  };
  return { settings, warnings: unknownNames(environment) };
}

/**
 * Reads `.env` in the folder, and in the config file's folder where that is another, into the process's environment, which
 * goes before them; then the settings. User code finds its own variables there, too.
 */
export function loadSettings(folder: string = process.cwd()): { settings: Settings; warnings: string[] } {
  fillFrom(join(folder, '.env'));
  const config = process.env.PAWL_CONFIG?.trim();
  if (config !== undefined && config !== '') fillFrom(join(dirname(resolve(folder, config)), '.env'));
  return readSettings(process.env);
}

/** The settings of models as src/openai takes them, keys in place of the names of the variables that hold them. */
export function resolveModels(models: ReadonlyMap<string, ModelSettings>, environment: Environment = process.env) {
  return Object.fromEntries([...models].map(([name, settings]) => [name, resolveModel(name, settings, environment)]));
}

function resolveModel(name: string, { apiKeyEnv, priceUsdPerMTok: price, ...rest }: ModelSettings, env: Environment) {
  const apiKey = apiKeyEnv === undefined ? null : (env[apiKeyEnv]?.trim() ?? '');
  if (apiKey === '') {
    throw new PawlError('config_invalid', `${apiKeyEnv} is not set, and the model ${name} takes its key from there`);
  }
  const priceUsdPerMTok = price && { ...price, cachedInput: price.cachedInput ?? price.input };
  return { ...rest, ...(apiKey === null ? {} : { apiKey }), ...(priceUsdPerMTok && { priceUsdPerMTok }) };
}

function fillFrom(file: string): void {
  let content: string;
  try {
    content = readFileSync(file, 'utf8');
  } catch (thrown) {
    if (thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT') return;
    throw new PawlError('config_invalid', `${file} cannot be read: ${describeThrown(thrown)}`, { cause: thrown });
  }
  for (const [name, value] of Object.entries(parseDotenv(content))) process.env[name] ??= value;
}

/** The variables of the schema that are set to something; proxies are known in lower case, too. */
function namedSettings(environment: Environment): Record<string, string> {
  const given: Record<string, string> = {};
  for (const name of Object.keys(schema.shape)) {
    const value = environment[name] || (name.endsWith('_PROXY') ? environment[name.toLowerCase()] : undefined);
    if (value !== undefined && value.trim() !== '') given[name] = value;
  }
  return given;
}

function problem(name: string, given: Record<string, string>, expected: string): string {
  const value = given[name] ?? '';
  const shown = isSecretName(name) ? '(not shown)' : JSON.stringify(hidePassword(value).slice(0, 120));
  return `${name} must be ${expected}, not ${shown}`;
}

/** Also in a URL that cannot be parsed, where anything up to the last @ may be a password. */
function hidePassword(value: string): string {
  return maskSecrets(value.replace(/^(\w+:\/\/[^:/]*):.*@/, '$1:[redacted]@'));
}

function refusalOf(problems: string[]): PawlError {
  const list = problems.length === 1 ? problems[0] : `\n${problems.map((line) => `- ${line}`).join('\n')}`;
  return new PawlError('config_invalid', `the environment cannot be used: ${list}`);
}

function unknownNames(environment: Environment): string[] {
  const known = Object.keys(schema.shape);
  return Object.keys(environment)
    .filter((name) => name.startsWith('PAWL_') && !name.startsWith('PAWL_TEST_') && !known.includes(name))
    .map((name) => `${name} is no setting of Pawl${didYouMean(name, known)}; it is ignored`);
}

function proxyOf(read: z.output<typeof schema>): Settings['proxy'] {
  const { HTTPS_PROXY: httpsProxy, HTTP_PROXY: httpProxy, NO_PROXY: noProxy } = read;
  if (httpsProxy === null && httpProxy === null) return null;
  return {
    ...(httpsProxy !== null && { httpsProxy }),
    ...(httpProxy !== null && { httpProxy }),
    ...(noProxy !== null && { noProxy }),
  };
}

function readQueues(given: string): string[] | undefined {
  const names = given.split(',').map((name) => name.trim());
  return names.every((name) => /^[a-z][a-z0-9-]{0,39}$/.test(name)) ? [...new Set(names)] : undefined;
}

/** Values of variables that are named like secrets, and the passwords in URLs; as given and percent-decoded. */
function secretsOf(environment: Environment): string[] {
  const secrets = new Set<string>();
  for (const [name, value = ''] of Object.entries(environment)) {
    if (isSecretName(name) || /_KEY$/i.test(name)) secrets.add(value.trim());
    else if (/^\w+:\/\/[^/]*@/.test(value) && URL.canParse(value)) {
      const { username, password } = new URL(value);
      // postgres:postgres@ keeps no secret, and would take an ordinary word out of every line.
      if (password !== username) secrets.add(password).add(decoded(password));
    }
  }
  return [...secrets].filter((secret) => secret.length >= 6);
}

function decoded(password: string): string {
  try {
    return decodeURIComponent(password);
  } catch {
    return password;
  }
}
