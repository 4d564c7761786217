/** `pawl doctor --llm` against the strict scripted model: what it makes of a sound provider, and of each wrong setting. */
import { afterEach, describe, expect, it } from 'vitest';
import { diagnose, diagnoseEmbeddings } from '../../../src/openai/diagnose.js';
import type { OpenAiSettings } from '../../../src/openai/llm.js';
import {
  type ScriptedModel,
  type ScriptedModelOptions,
  startScriptedModel,
} from '../../../src/testing/model-server.js';
import type { Script } from '../../../src/testing/script.js';

let server: ScriptedModel | null = null;
afterEach(async () => {
  await server?.close();
  server = null;
});

const log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };

const sound: Script = ({ tools, outputSchema }) => {
  if (outputSchema !== null) return '{"word":"pong"}';
  return tools.length > 0 ? { calls: [{ name: 'ping', arguments: { word: 'pong' } }] } : 'pong';
};

/** The lines, of a provider that does what the script says, as it is asked with these settings. */
async function lines(
  script: Script,
  given: (url: string) => Partial<OpenAiSettings> = () => ({}),
  options: Partial<ScriptedModelOptions> = {},
) {
  server = await startScriptedModel({ script, apiKey: 'key-right', models: ['small', 'large'], ...options });
  const checks = await diagnose({ baseUrl: server.url, apiKey: 'key-right', log, ...given(server.url) }, 'small');
  expect(server.breaches).toEqual([]);
  return checks;
}

describe('a provider', () => {
  it('that works is ok in every respect, at the price of two calls', async () => {
    const checks = await lines(sound);
    expect(checks.map(({ name, state }) => `${name} ${state}`)).toEqual([
      'llm small ok',
      'llm small: tools ok',
      'llm small: JSON output ok',
      'llm small: usage ok',
    ]);
    expect(server?.requests).toHaveLength(2);
  });

  it('that calls no tool, keeps to no schema and reports no usage is said to', async () => {
    const checks = await lines(() => ({ text: 'pong', usage: 'missing' }));
    expect(checks.map(({ state }) => state)).toEqual(['ok', 'note', 'note', 'note']);
  });

  it('that refuses tools is told from one that does not answer', async () => {
    const refuses: Script = ({ tools }) =>
      tools.length > 0 ? { fault: 'status', status: 400, message: 'small does not support tools' } : '{"word":"x"}';
    const [answered, tools] = await lines(refuses);
    expect(answered?.state).toBe('ok');
    expect(tools).toMatchObject({ state: 'bad', says: expect.stringContaining('does not support tools') });
  });

  it('that answers nobody is named with its address and the proxy', async () => {
    const [check] = await diagnose(
      { baseUrl: 'http://127.0.0.1:1/v1', apiKey: null, log, proxy: { httpsProxy: 'http://proxy:1' } },
      'small',
    );
    expect(check).toMatchObject({
      state: 'bad',
      says: expect.stringContaining('http://127.0.0.1:1/v1 cannot be reached'),
    });
    expect(check?.fix).toContain('proxy');
  });
});

describe('a wrong setting', () => {
  it('of the address, its /v1 missing, is told with the right one', async () => {
    const [check, ...rest] = await lines(sound, (url) => ({ baseUrl: url.replace('/v1', '') }));
    expect(rest).toEqual([]);
    expect(check?.says).toContain('lacks its /v1');
    expect(check?.fix).toBe(`set it to ${server?.url}, which answers`);
  });

  it('of the address, /chat/completions appended, is told with the right one', async () => {
    const [check] = await lines(sound, (url) => ({ baseUrl: `${url}/chat/completions` }));
    expect(check).toMatchObject({ state: 'bad', fix: `set it to ${server?.url}` });
    expect(server?.requests).toEqual([]);
  });

  it('of the address, where no API is at all, is told', async () => {
    const [check] = await lines(sound, (url) => ({ baseUrl: url.replace('/v1', '/api/v2') }));
    expect(check?.says).toContain('serves no chat completions');
  });

  it('of the key is told, and the key is not shown', async () => {
    const [check] = await lines(sound, () => ({ apiKey: 'key-wrong-4711' }));
    expect(check).toMatchObject({ state: 'bad', says: expect.stringContaining('refuses the key') });
    expect(JSON.stringify(check)).not.toContain('4711');
  });

  it('of the key, where there is none, is told', async () => {
    const [check] = await lines(sound, () => ({ apiKey: null }));
    expect(check).toMatchObject({ state: 'bad', says: expect.stringContaining('wants a key') });
  });

  it('of the key and the address at once begins with the address', async () => {
    const [check] = await lines(sound, (url) => ({ baseUrl: url.replace('/v1', '') }), { models: ['other'] });
    expect(check?.says).toContain('lacks its /v1');
  });

  it('of the model is told with the models there are', async () => {
    const [check] = await lines(sound, () => ({}), { models: ['smal', 'large'] });
    expect(check).toMatchObject({ state: 'bad', says: 'the provider has no model small' });
    expect(check?.fix).toContain('smal, large');
  });
});

it('an embedding model says how long its vectors are, or what is wrong with it', async () => {
  server = await startScriptedModel({
    script: sound,
    apiKey: 'key-right',
    embed: (_, model) =>
      model === 'vectors' ? [[1, 2, 3]] : { fault: 'status', status: 404, message: 'no such model' },
  });
  const settings = { baseUrl: server.url, apiKey: 'key-right', log };
  expect(await diagnoseEmbeddings(settings, 'vectors')).toMatchObject({
    ...{ name: 'embeddings vectors', state: 'ok' },
    says: expect.stringMatching(/^3 numbers a text, from http:/),
  });
  const wrong = await diagnoseEmbeddings(settings, 'small');
  expect(wrong).toMatchObject({ state: 'bad', says: expect.stringContaining('404 no such model') });
  expect(wrong.fix).toContain('embeddingModel');
  expect(server.breaches).toEqual([]);
});
