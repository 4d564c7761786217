/**
 * The events of a run. That a step has its outcome is the event of every step, and all it tells stands in the row of the step
 * and in its message: so it is no row of its own, but its number on the step. Whoever reads events reads them by
 * `eventsOf`; those of steps that were completed before it was so are rows like the others.
 */

/** SQL of the events, as rows of pawl.events, of the run that this expression names. */
export const eventsOf = (run: string) => `(
  select run_id, id, type, seq, at, data from pawl.events where run_id = ${run}
  union all
  select c.run_id, c.completed_event, 'step.completed', c.seq, c.finished_at, case
    when c.error_code is not null
      then json_build_object('error', json_build_object('code', c.error_code, 'message', c.error_message))::text
    when c.kind = 'llm' then (
      select json_build_object('calls', n)::text from (
        select json_array_length(m.body::json -> 'toolCalls') as n from pawl.messages m
        where m.run_id = c.run_id and m.seq = c.seq and m.pos = 0) calls
      where n > 0) end
  from pawl.steps c where c.run_id = ${run} and c.completed_event is not null)`;
