/**
 * The scripted model over HTTP. It counts a request's tokens, four characters each, and of them those that begin like a prompt
 * it has seen, as providers cache them: from 1,024 on, in steps of 128. It takes as long as habits.ts says, by those counts.
 */
import { type ScriptedModel, type ScriptedRequest, startScriptedModel } from '../../src/testing/index.js';
import { callsOf, promptOf, saidTokensOf, tokensOf } from './counting.js';
import { pace } from './habits.js';
import { answerOf } from './model.js';

/** A request that was answered, for the table. */
export interface Served {
  task: string;
  promptTokens: number;
  cachedTokens: number;
  calls: { name: string; arguments: string }[];
}

export interface JudgementModel extends Pick<ScriptedModel, 'url' | 'close'> {
  seed: number;
  /** What was answered since it was last emptied; the model itself never looks there. */
  served: Served[];
  /** Forgets the prompts it has cached. */
  forget(): void;
}

export async function startJudgementModel(options: { pace: number }): Promise<JudgementModel> {
  const cache = new Map<string, string[]>();
  const model: JudgementModel = { url: '', seed: 1, served: [], forget: () => cache.clear(), close: async () => {} };
  const server = await startScriptedModel({
    script(request) {
      const answer = answerOf({ ...request, toolChoice: request.body?.tool_choice }, model.seed);
      const prompt = promptOf(request);
      const promptTokens = tokensOf(prompt);
      const cachedTokens = cachedOf(cache, prompt);
      const calls = callsOf(answer, prompt);
      const saidTokens = saidTokensOf(answer, calls);
      model.served.push({ task: taskOf(request), promptTokens, cachedTokens, calls });
      const ms =
        pace.firstTokenMs + (promptTokens - cachedTokens) / pace.promptTokensPerMs + saidTokens * pace.msPerToken;
      const usage = {
        prompt_tokens: promptTokens,
        completion_tokens: saidTokens,
        total_tokens: promptTokens + saidTokens,
        prompt_tokens_details: { cached_tokens: cachedTokens },
      };
      return { ...answer, ...(calls.length > 0 && { calls }), usage, delayMs: Math.round(ms * options.pace) };
    },
  });
  model.url = server.url;
  model.close = () => server.close();
  return model;
}

function taskOf({ messages }: ScriptedRequest): string {
  return messages.find(({ role }) => role === 'user')?.content?.split('\n\n')[0] ?? '';
}

function cachedOf(cache: Map<string, string[]>, prompt: string): number {
  const head = prompt.slice(0, 1_024 * 4);
  if (head.length < 1_024 * 4) return 0;
  const seen = cache.get(head) ?? [];
  const shared = Math.max(0, ...seen.map((earlier) => sharedHead(earlier, prompt)));
  cache.set(head, [...seen, prompt]);
  return Math.floor(shared / 4 / 128) * 128;
}

function sharedHead(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let at = 0;
  while (at < most && a.charCodeAt(at) === b.charCodeAt(at)) at += 1;
  return at;
}
