-- The rules of a row in one function a table: CHECKs of their own are read and planned anew by each statement. See row-rules.ts.
CREATE OR REPLACE FUNCTION "pawl"."runs_are_sound"("status" text, "reason" text, "ending_status" text, "ending_reason" text, "ending_at" timestamp (3) with time zone, "pause_at" timestamp (3) with time zone, "max_tokens" bigint, "max_cost_usd" double precision, "on_limit" text, "open_steps" integer, "suspended_steps" integer, "reserve_input" integer, "reserve_output" integer, "reserve_usd" double precision, "conduct" text, "key" text, "thread_id" text, "holds_thread" boolean, "finished_at" timestamp (3) with time zone) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
declare
  broken constant text := case
    when not ((max_tokens is null or max_tokens > 0) and (max_cost_usd is null or max_cost_usd > 0)) then 'runs_budgets'
    when not (conduct is null or conduct like '{%}') then 'runs_conduct_is_an_object'
    when not ((status in ('completed', 'failed', 'cancelled')) = (finished_at is not null)) then 'runs_end'
    when not ((ending_at is null) = (ending_status is null) and (ending_at is null) = (ending_reason is null)) then 'runs_ending_is_whole'
    when not (status not in ('failed', 'cancelled') or reason is not null) then 'runs_failed_has_reason'
    when not (finished_at is null or (ending_at is null and pause_at is null)) then 'runs_final_is_not_ending'
    when not (key is null or length(key) between 1 and 255) then 'runs_key_length'
    when not (on_limit in ('finish', 'fail', 'suspend')) then 'runs_on_limit'
    when not (reason is null or reason in ('max_steps', 'max_turns', 'max_tokens', 'max_cost', 'deadline', 'loop_detected', 'breaker_open', 'attempts_exhausted', 'crash_loop', 'claim_loop', 'unstorable', 'unknown_outcome', 'quota_exhausted', 'invalid_request', 'invalid_response', 'refused', 'content_filter', 'context_overflow', 'invalid_output', 'stopped_early', 'cancelled')) then 'runs_reason'
    when not (reserve_input >= 0 and reserve_output >= 0 and (reserve_usd is null or reserve_usd >= 0)) then 'runs_reserve'
    when not (status in ('pending', 'running', 'suspended', 'completed', 'failed', 'cancelled')) then 'runs_status'
    when not (case
      when status in ('pending', 'running') then open_steps > suspended_steps and suspended_steps >= 0
      when status = 'suspended' then open_steps = suspended_steps and open_steps > 0
      else open_steps = 0 and suspended_steps = 0 end) then 'runs_steps_match_status'
    when not (not holds_thread or (thread_id is not null and finished_at is null)) then 'runs_thread_is_held'
    when not (thread_id is null or length(thread_id) between 1 and 255) then 'runs_thread_length'
  end;
begin
  if broken is null then return true; end if;
  raise check_violation using schema = 'pawl', table = 'runs', constraint = broken,
    message = format('new row for relation "runs" violates check constraint "%s"', broken);
end $$;
--> statement-breakpoint
CREATE OR REPLACE FUNCTION "pawl"."steps_are_sound"("seq" integer, "kind" text, "status" text, "dispatch" integer, "claim_token" uuid, "worker_id" text, "claimed_at" timestamp (3) with time zone, "claim_deadline" timestamp (3) with time zone, "attempt" integer, "failures" integer, "crashes" integer, "claims" integer, "unknown" boolean, "max_attempts" integer, "waiting_for" text, "turn_seq" integer, "position" integer, "call_id" text, "effect" text, "error_code" text, "finished_at" timestamp (3) with time zone) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
declare
  broken constant text := case
    when not (num_nulls(claim_token, worker_id, claimed_at, claim_deadline) in (0, 4)) then 'steps_claim_is_whole'
    when not (case
      when status = 'running' then claim_token is not null
      when status in ('pending', 'suspended') then claim_token is null
      else true end) then 'steps_claim_matches_status'
    when not (seq > 0 and dispatch >= 0 and attempt >= 0 and failures >= 0 and crashes >= 0 and claims >= 0) then 'steps_counts'
    when not (status <> 'dead' or error_code is not null) then 'steps_dead_says_why'
    when not (effect is null or effect in ('none', 'idempotent', 'once')) then 'steps_effect'
    when not ((status in ('completed', 'dead', 'cancelled')) = (finished_at is not null)) then 'steps_end'
    when not (kind in ('llm', 'tool', 'wait')) then 'steps_kind'
    when not (effect is distinct from 'once' or max_attempts = 1) then 'steps_once_has_one_attempt'
    when not (status in ('pending', 'running', 'suspended', 'completed', 'dead', 'cancelled')) then 'steps_status'
    when not ((status = 'suspended') = (waiting_for is not null)) then 'steps_suspended_names_its_wait'
    when not ((kind = 'tool') = (num_nulls(turn_seq, position, call_id, effect) = 0)) then 'steps_tool_is_whole'
    when not (not unknown or effect is not distinct from 'once') then 'steps_unknown_is_once'
    when not (waiting_for is null or waiting_for in ('approval', 'timer', 'signal', 'child', 'outcome', 'operator', 'limit', 'slot', 'worker', 'batch', 'step')) then 'steps_waiting_for'
  end;
begin
  if broken is null then return true; end if;
  raise check_violation using schema = 'pawl', table = 'steps', constraint = broken,
    message = format('new row for relation "steps" violates check constraint "%s"', broken);
end $$;
--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_status";--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_reason";--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_on_limit";--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_steps_match_status";--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_end";--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_final_is_not_ending";--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_ending_is_whole";--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_failed_has_reason";--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_budgets";--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_reserve";--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_conduct_is_an_object";--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_thread_is_held";--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_thread_length";--> statement-breakpoint
ALTER TABLE "pawl"."runs" DROP CONSTRAINT "runs_key_length";--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_kind";--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_status";--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_effect";--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_waiting_for";--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_suspended_names_its_wait";--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_claim_matches_status";--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_claim_is_whole";--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_end";--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_tool_is_whole";--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_dead_says_why";--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_once_has_one_attempt";--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_unknown_is_once";--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_counts";--> statement-breakpoint
ALTER TABLE "pawl"."instance" ALTER COLUMN "oldest_code" SET DEFAULT 13;--> statement-breakpoint
ALTER TABLE "pawl"."steps" ADD COLUMN "completed_event" integer;--> statement-breakpoint
ALTER TABLE "pawl"."runs" ADD CONSTRAINT "runs_are_sound" CHECK (pawl.runs_are_sound(status, reason, ending_status, ending_reason, ending_at, pause_at, max_tokens, max_cost_usd, on_limit, open_steps, suspended_steps, reserve_input, reserve_output, reserve_usd, conduct, key, thread_id, holds_thread, finished_at));--> statement-breakpoint
ALTER TABLE "pawl"."steps" ADD CONSTRAINT "steps_are_sound" CHECK (pawl.steps_are_sound(seq, kind, status, dispatch, claim_token, worker_id, claimed_at, claim_deadline, attempt, failures, crashes, claims, unknown, max_attempts, waiting_for, turn_seq, position, call_id, effect, error_code, finished_at));--> statement-breakpoint
UPDATE "pawl"."instance" SET "oldest_code" = 13;
