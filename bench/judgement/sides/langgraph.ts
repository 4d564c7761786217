/**
 * LangGraph.js: its prebuilt ReAct agent, with the trimming its guide shows (trimMessages in a preModelHook), its limit of
 * recursion and its handling of a tool's errors as they are by default. It knows no limit of time for a tool; a tool of its
 * guides takes an AbortSignal, so each is given one here.
 */
import { HumanMessage, isAIMessage, isToolMessage, trimMessages } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { GraphRecursionError, type MessagesAnnotation } from '@langchain/langgraph';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import { instructions, modelName, type Side } from '../side.js';
import { listDescription, listInput, queryDescription, queryInput, toolTimeoutMs, type Warehouse } from '../tools.js';

type State = typeof MessagesAnnotation.State;
type Messages = State['messages'];

/**
 * It makes no difference here: what the guide's `startOn: 'human'` leaves of one task's messages, once they are too many, is
 * nothing, since the one human message is the first; and for no messages the agent takes all.
 */
const trimToTokens = 8_000;

export const langgraph: Side = {
  title: 'LangGraph.js',
  packages: ['@langchain/langgraph', '@langchain/core', '@langchain/openai'],
  how: 'createReactAgent in memory, without a checkpointer; trimMessages in a preModelHook; recursionLimit 25, the default; a time limit in each tool',
  async open({ modelUrl, warehouse }) {
    const agent = createReactAgent({
      llm: new ChatOpenAI({ model: modelName, apiKey: 'key', configuration: { baseURL: modelUrl } }),
      tools: toolsOf(warehouse),
      prompt: instructions,
      preModelHook: async ({ messages }: State) => ({
        llmInputMessages: await trimMessages(messages, {
          strategy: 'last',
          maxTokens: trimToTokens,
          tokenCounter: countRoughly,
          startOn: 'human',
          endOn: ['human', 'tool'],
        }),
      }),
    });
    return {
      async play(task) {
        const from = performance.now();
        let messages: Messages = [];
        let ended = 'completed';
        try {
          const states = await agent.stream({ messages: [new HumanMessage(task)] }, { streamMode: 'values' });
          for await (const state of states) messages = (state as State).messages;
        } catch (error) {
          ended = error instanceof Error ? error.name : String(error);
          if (!(error instanceof GraphRecursionError)) ended += `: ${String(error)}`;
        }
        const last = messages.at(-1);
        return {
          answer: ended === 'completed' && last !== undefined && isAIMessage(last) ? last.text : null,
          ended,
          endedAtLimit: ended === 'GraphRecursionError',
          calls: messages.filter((message) => isToolMessage(message)).map(({ status }) => status !== 'error'),
          ms: performance.now() - from,
        };
      },
      close: async () => {},
    };
  },
};

function toolsOf(warehouse: Warehouse) {
  return [
    tool((args) => warehouse.query(args, AbortSignal.timeout(toolTimeoutMs)), {
      name: 'query_orders',
      description: queryDescription,
      schema: queryInput,
    }),
    tool((args) => warehouse.list(args, AbortSignal.timeout(toolTimeoutMs)), {
      name: 'list_orders',
      description: listDescription,
      schema: listInput,
    }),
  ];
}

function countRoughly(messages: Messages): number {
  return messages.reduce((sum, message) => sum + Math.ceil(message.text.length / 4), 0);
}
