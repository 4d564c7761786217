/**
 * Two ways to spend calls beside the turns of a task. The researcher plans before its first turn, and its plan stands in every
 * prompt from then on, however much of the rest is left out; it replaces it when what it finds speaks against it. The editor's
 * answers are judged before they are given out, at most twice in a run.
 *
 *   export PAWL_CONFIG=examples/plan-and-review.ts
 *   npx pawl dev                                                 # in one terminal; the rest in another
 *   npx pawl run researcher "How did the notes speak of rain over the years?"
 *   npx pawl runs show ID                                        # its plan, and when it was put in place
 *   npx pawl run editor "Announce the maintenance of 3 May, 22:00 to 23:00 UTC"
 */
import { defineAgent, defineConfig, defineTool } from 'pawl';
import { z } from 'zod';

const notes: Record<string, string> = {
  '1988': 'Rain on 140 days; the river stayed in its bed.',
  '1989': 'Rain on 90 days. For the floods see 1991.',
  '1991': 'Rain on 171 days; the river left its bed twice.',
};

const readNotes = defineTool({
  name: 'read_notes',
  description: 'The notes of a year',
  effect: 'none',
  input: z.object({ year: z.string().regex(/^\d{4}$/) }),
  execute: ({ year }) => notes[year] ?? `There are no notes of ${year}, only of ${Object.keys(notes).join(', ')}.`,
});

export default defineConfig({
  agents: [
    defineAgent({
      name: 'researcher',
      instructions: 'Answer from the notes alone.',
      tools: [readNotes],
      mode: 'plan',
    }),
    defineAgent({
      name: 'editor',
      instructions: 'Write announcements to customers, two sentences at most.',
      mode: {
        reflect: {
          rounds: 2,
          criteria: 'It says what happens, when it begins and ends with the time zone, and blames nobody.',
        },
      },
    }),
  ],
});
