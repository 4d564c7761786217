/** What Dockerfile and docker-compose.yml must hold to, whatever else is changed in them. */
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { page } from './pages.js';

interface Service {
  image: string;
  command?: string[];
  environment?: Record<string, string>;
  restart?: string;
  volumes?: string[];
  ports?: string[];
  healthcheck?: { test: string[] };
  stop_grace_period?: string;
  deploy?: { replicas: number };
  depends_on?: Record<string, { condition: string }>;
}

const { services, volumes } = parse(page('docker-compose.yml'), { merge: true }) as {
  services: Record<string, Service>;
  volumes: Record<string, unknown>;
};
const dockerfile = page('Dockerfile');
const lastStage = dockerfile.slice(dockerfile.lastIndexOf('\nFROM '));

describe('the image', () => {
  it('runs Pawl itself as its first process, so that a SIGTERM reaches it', () => {
    expect(lastStage).toMatch(/^ENTRYPOINT \["node", "bin\/pawl\.mjs"\]$/m);
    expect(lastStage).toMatch(/^CMD \["worker"\]$/m);
  });

  it('runs as a plain user, and knows whether it is healthy', () => {
    expect(lastStage).toMatch(/^USER node$/m);
    expect(lastStage).toMatch(/^HEALTHCHECK .*CMD \["node", "docker\/health\.mjs"\]$/m);
  });

  it('has the packages of the lock file without those of development', () => {
    expect(dockerfile).toMatch(/^RUN npm ci --omit=dev/m);
    expect(lastStage).not.toMatch(/^RUN npm/m);
  });

  it('takes only named parts of the clone, so that no .env and no data gets in', () => {
    const lines = page('.dockerignore').split('\n');
    const rules = lines.filter((line) => line !== '' && !line.startsWith('#'));
    expect(rules[0]).toBe('*');
    for (const rule of rules.slice(1)) expect(rule).toMatch(/^!(\.npmrc|[\w.-]+)$/);
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, sources = '']) =>
      sources.split(' '),
    );
    for (const source of copied) expect(rules).toContain(`!${source}`);
  });
});

describe('the deployment', () => {
  it('serves the dashboard on loopback only, with a key, once the migrations are done', () => {
    const { server } = services;
    expect(server).toMatchObject({ command: ['server'], ports: ['127.0.0.1:3900:3900'] });
    expect(server?.environment).toHaveProperty('PAWL_API_KEY');
    expect(server?.environment).toHaveProperty('DATABASE_URL');
    expect(server?.depends_on?.migrate).toEqual({ condition: 'service_completed_successfully' });
  });

  it('begins work when the migrations are done, with two workers that have time to hand back what they hold', () => {
    expect(services.migrate).toMatchObject({ command: ['migrate'], restart: 'no' });
    expect(services.worker).toMatchObject({
      command: ['worker'],
      deploy: { replicas: 2 },
      stop_grace_period: '30s',
      depends_on: { migrate: { condition: 'service_completed_successfully' }, redis: { condition: 'service_healthy' } },
    });
  });

  it('has a Redis that loses no job and evicts none', () => {
    const command = services.redis?.command?.join(' ');
    expect(command).toContain('--appendonly yes');
    expect(command).toContain('--maxmemory-policy noeviction');
  });

  it('keeps the data of both services in named volumes and shows them to this machine alone', () => {
    for (const name of ['postgres', 'redis']) {
      const service = services[name];
      expect(service?.healthcheck?.test.length).toBeGreaterThan(1);
      expect(Object.keys(volumes)).toContain(service?.volumes?.[0]?.split(':')[0]);
      for (const port of service?.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
    }
  });
});
