import { expect, it } from 'vitest';
import { isSecretName, maskSecrets } from '../../src/core/secrets.js';

it('knows secrets by the names of their fields', () => {
  for (const name of [
    'apiKey',
    'OPENAI_API_KEY',
    'Authorization',
    'x-auth-token',
    'dbPassword',
    'Set-Cookie',
    'token',
  ]) {
    expect(isSecretName(name), name).toBe(true);
  }
  for (const name of [
    'key',
    'tokens',
    'inputTokens',
    'idempotencyKey',
    'author',
    'passwordless',
    'callHash',
    'cookies',
  ]) {
    expect(isSecretName(name), name).toBe(false);
  }
});

it('masks what looks like a secret and leaves the words around it', () => {
  expect(maskSecrets('postgres://app:pw@db:5432/x and redis://:pw2@h')).toBe(
    'postgres://app:[redacted]@db:5432/x and redis://:[redacted]@h',
  );
  expect(maskSecrets('sent Bearer abc.def-123, failed')).toBe('sent Bearer [redacted], failed');
  expect(maskSecrets('key sk-proj-AbCdEf123456 refused')).toBe('key [redacted] refused');
  expect(maskSecrets('https://example.com/a:b@c run_abc step 3')).toBe('https://example.com/a:b@c run_abc step 3');
  expect(maskSecrets('basic research is a bearer of risk')).toBe('basic research is a bearer of risk');
});

it('masks given values wherever they stand, but no short ones', () => {
  expect(maskSecrets('a hunter22 b hunter22', ['hunter22', 'a'])).toBe('a [redacted] b [redacted]');
});
