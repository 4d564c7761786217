-- What an operator asks of runs by SQL. Names and columns are a published interface: see the readme.
CREATE VIEW "pawl"."step_timeline" AS
SELECT r.tenant, r.agent, s.run_id, s.seq, s.kind, s.name, s.status, s.attempt, s.failures, s.crashes, s.claims,
  s.waiting_for,
  -- A text is stored once: what a message says is not repeated in the row of its step.
  coalesce(s.input, CASE WHEN s.kind = 'tool' THEN (
    SELECT m.body::json -> 'toolCalls' -> (s.position - 1) ->> 'arguments' FROM pawl.messages m
    WHERE m.run_id = s.run_id AND m.seq = s.turn_seq AND m.pos = 0) END) AS input,
  coalesce(s.output, CASE WHEN s.status = 'completed' THEN (
    SELECT m.body::json ->> 'content' FROM pawl.messages m
    WHERE m.run_id = s.run_id AND m.seq = coalesce(s.turn_seq, s.seq) AND m.pos = coalesce(s.position, 0)) END) AS output,
  s.error_code, s.error_message,
  s.input_tokens, s.cached_input_tokens, s.output_tokens, s.cost_usd, s.usage_estimated,
  s.worker_id, s.queued_at, s.started_at, s.finished_at,
  s.started_at - s.queued_at AS waited, s.finished_at - s.started_at AS took
FROM pawl.steps s JOIN pawl.runs r ON r.id = s.run_id;
--> statement-breakpoint
CREATE VIEW "pawl"."run_costs" AS
SELECT r.tenant, r.agent, r.id AS run_id, r.status, r.reason, r.tags, r.created_at, r.finished_at,
  r.steps_used AS steps, r.turns_used AS turns,
  r.input_tokens, r.cached_input_tokens, r.output_tokens, r.cost_usd, r.usage_estimated
FROM pawl.runs r;
--> statement-breakpoint
CREATE VIEW "pawl"."dead_letters" AS
SELECT r.tenant, r.agent, s.run_id, s.seq, s.kind, s.name, r.status AS run_status, r.reason AS run_reason,
  s.error_code, s.error_message, s.attempt, s.failures, s.crashes, s.claims, s.finished_at AS died_at
FROM pawl.steps s JOIN pawl.runs r ON r.id = s.run_id
WHERE s.status = 'dead';
