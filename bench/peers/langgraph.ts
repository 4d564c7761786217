/** LangGraph.js with its Postgres checkpointer: an agent node and a tool node that take turns, and a checkpoint a step. */
import { AIMessage, HumanMessage, ToolMessage } from '@langchain/core/messages';
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import pg from 'pg';
import { inLanes, type Peer } from '../peer.js';

export const langgraph: Peer = {
  title: 'LangGraph.js + Postgres checkpointer',
  packages: ['@langchain/langgraph', '@langchain/langgraph-checkpoint-postgres'],
  how: 'an agent node and a tool node that take turns on a message state; durability as by default (async)',
  share: 0.2,
  async open({ databaseUrl, concurrency, work }) {
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 20 });
    const checkpointer = new PostgresSaver(pool);
    await checkpointer.setup();
    type State = typeof MessagesAnnotation.State;
    const askedOf = (state: State) => {
      const [run = '', steps = '0'] = String(state.messages[0]?.content).split(' ');
      return { run, steps: Number(steps), step: state.messages.length };
    };
    const graph = new StateGraph(MessagesAnnotation)
      .addNode('agent', async (state) => {
        const { run, step } = askedOf(state);
        const note = await work.perform(run, step);
        return { messages: [new AIMessage({ content: note })] };
      })
      .addNode('tools', async (state) => {
        const { run, step } = askedOf(state);
        const content = await work.perform(run, step);
        return { messages: [new ToolMessage({ content, tool_call_id: `call_${step}` })] };
      })
      .addEdge(START, 'agent')
      .addConditionalEdges('agent', (state) => (askedOf(state).step > askedOf(state).steps ? END : 'tools'))
      .addConditionalEdges('tools', (state) => (askedOf(state).step > askedOf(state).steps ? END : 'agent'))
      .compile({ checkpointer });
    const configOf = (run: string) => ({ configurable: { thread_id: run }, recursionLimit: 1_000_000 });
    return {
      async play(runs, steps, recorded) {
        await inLanes(runs, concurrency, (run) =>
          graph.invoke(
            { messages: [new HumanMessage(`${run} ${steps}`)] },
            { ...configOf(run), ...(recorded === 'each' ? { durability: 'sync' } : {}) },
          ),
        );
      },
      async outputs(run) {
        const { values } = await graph.getState(configOf(run));
        return (values as State).messages.slice(1).map((message) => String(message.content));
      },
      async recorded() {
        const { rows } = await pool.query<{ n: number }>(
          "select count(*)::int as n from checkpoints where (metadata->>'step')::int >= 1",
        );
        return rows[0]?.n ?? 0;
      },
      close: () => pool.end(),
    };
  },
};
