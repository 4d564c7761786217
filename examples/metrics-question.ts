/**
 * A question about metrics: the tool takes a metric of a closed list, a host by a pattern and a window that is an hour where the
 * model names none. What does not fit is not called; the model is told each fault by its path, and asks again. Its answer may
 * hold no number that the tool did not give.
 *
 *   export PAWL_CONFIG=examples/metrics-question.ts
 *   npx pawl dev                                                 # in one terminal; the rest in another
 *   npx pawl run oncall "How busy was web-3?"
 */
import { defineAgent, defineConfig, defineTool, numbersFromTools } from 'pawl';
import { z } from 'zod';

const minutes = { '15m': 15, '1h': 60, '24h': 1_440 };

const queryMetrics = defineTool({
  name: 'query_metrics',
  description: 'Average and highest value of a metric of a host, up to now',
  effect: 'none',
  input: z.object({
    metric: z.enum(['cpu_percent', 'memory_percent', 'requests_per_second']),
    host: z.string().regex(/^(web|db)-\d{1,3}$/),
    window: z.enum(['15m', '1h', '24h']).default('1h'),
  }),
  // Made up from the name, so that it is the same each time; yours asks where the metrics are.
  execute: ({ metric, host, window }) => {
    const number = Number(host.split('-')[1]);
    const values = Array.from({ length: minutes[window] }, (_, minute) => (minute * 7 + number * 13) % 100);
    const average = values.reduce((sum, value) => sum + value, 0) / values.length;
    return { metric, host, window, average: Number(average.toFixed(1)), highest: Math.max(...values) };
  },
});

export default defineConfig({
  agents: [
    defineAgent({
      name: 'oncall',
      instructions: 'Answer questions about the hosts from their metrics, in one sentence with the numbers.',
      tools: [queryMetrics],
      verify: numbersFromTools,
    }),
  ],
});
