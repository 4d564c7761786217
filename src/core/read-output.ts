/**
 * read_output: the tool that every agent with tools has besides its own, so that the model can read a long output whole of
 * which it was shown a part. It is there from the start of a run, or the prompt's head would change, and it is short, since
 * every prompt pays for it. Its name is Pawl's. What it does is engine/perform-tool.ts: no code of a user's runs in it.
 */
import { defineTool, type Tool } from './tool.js';
import type { Words } from './words.js';

export const readOutputName = 'read_output';

/** Characters of a page where the model names no number, and at most. */
export const pageChars = { usual: 4_000, most: 10_000 };

export interface PageAsked {
  step: number;
  offset: number;
  limit: number;
}

/** A page, by characters, of the whole output of a tool step. */
export interface OutputPage {
  /** The tool's. */
  name: string;
  text: string;
  /** Characters of the whole. */
  total: number;
}

/** The tool, in the words of the agent; its calls go where those of the agent's own tools go. */
export function readOutputTool(words: Words, beside: readonly Tool[]): Tool {
  const queues = beside.map(({ queue }) => queue);
  const tool = defineTool({
    name: readOutputName,
    description: words.readOutput(),
    effect: 'none',
    outage: false,
    maxOutputChars: 2 * pageChars.most,
    input: {
      type: 'object',
      properties: {
        step: { type: 'integer' },
        offset: { type: 'integer' },
        limit: { type: 'integer' },
      },
      required: ['step'],
    },
    execute: () => {
      throw new Error('read_output is carried out by the worker');
    },
  });
  const queue = queues.includes('tool') ? 'tool' : (queues[0] ?? 'tool');
  return Object.freeze({ ...tool, queue, builtIn: true });
}

const mostOfStep = 2_147_483_647;
const mostOffset = 2_000_000_000;

/** `args` as the tool's schema lets them pass, brought within their bounds: a schema that states them costs each prompt more. */
export function readPageAsked(args: unknown): PageAsked {
  const { step = 0, offset = 0, limit = pageChars.usual } = args as Partial<PageAsked>;
  const within = (value: number, least: number, most: number) => Math.min(Math.max(value, least), most);
  return {
    step: within(step, 0, mostOfStep),
    offset: within(offset, 0, mostOffset),
    limit: within(limit, 1, pageChars.most),
  };
}

/** What the model is told: the page under a line that says where it stands, or why there is none. */
export function tellPage(
  { step, offset }: PageAsked,
  page: OutputPage | null,
  words: Words,
): { ok: boolean; text: string } {
  if (page === null) return { ok: false, text: words.noOutput(step) };
  const { name, text, total } = page;
  const to = offset + countCharacters(text);
  if (to === offset) return { ok: false, text: words.noPage({ step, offset, total }) };
  return { ok: true, text: `${words.outputPage({ step, name, from: offset, to, total })}\n${text}` };
}

/** Characters of a text, each once however it is encoded. */
export function countCharacters(text: string): number {
  return text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0);
}
