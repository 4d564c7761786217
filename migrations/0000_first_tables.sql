CREATE SCHEMA IF NOT EXISTS "pawl";
--> statement-breakpoint
CREATE TABLE "pawl"."agents" (
	"name" text NOT NULL,
	"version" text NOT NULL,
	"listing" jsonb NOT NULL,
	"registered_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "agents_name_version_pk" PRIMARY KEY("name","version")
);
--> statement-breakpoint
CREATE TABLE "pawl"."attempts" (
	"token" uuid PRIMARY KEY NOT NULL,
	"run_id" text NOT NULL,
	"seq" integer NOT NULL,
	"attempt" integer NOT NULL,
	"worker_id" text NOT NULL,
	"started_at" timestamp (3) with time zone NOT NULL,
	"ended_at" timestamp (3) with time zone NOT NULL,
	"ended_by" text NOT NULL,
	"recorded" boolean NOT NULL,
	"error_code" text,
	"error_message" text,
	"input_tokens" integer,
	"cached_input_tokens" integer,
	"output_tokens" integer,
	"cost_usd" double precision,
	"usage_estimated" boolean,
	"retry_in_ms" integer,
	"late_note" text,
	CONSTRAINT "attempts_ended_by" CHECK (ended_by in ('failure', 'crash', 'claim', 'death', 'unknown', 'cancelled'))
);
--> statement-breakpoint
CREATE TABLE "pawl"."events" (
	"run_id" text NOT NULL,
	"id" integer NOT NULL,
	"type" text NOT NULL,
	"seq" integer,
	"at" timestamp (3) with time zone NOT NULL,
	"data" text,
	CONSTRAINT "events_run_id_id_pk" PRIMARY KEY("run_id","id")
);
--> statement-breakpoint
CREATE TABLE "pawl"."instance" (
	"one_row" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"id" text NOT NULL,
	"queue_epoch" integer DEFAULT 0 NOT NULL,
	"oldest_code" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "instance_is_one_row" CHECK (one_row)
);
--> statement-breakpoint
CREATE TABLE "pawl"."messages" (
	"run_id" text NOT NULL,
	"seq" integer NOT NULL,
	"pos" integer NOT NULL,
	"tokens" integer,
	"body" text NOT NULL,
	CONSTRAINT "messages_run_id_seq_pos_pk" PRIMARY KEY("run_id","seq","pos")
);
--> statement-breakpoint
CREATE TABLE "pawl"."outputs" (
	"run_id" text NOT NULL,
	"seq" integer NOT NULL,
	"body" text NOT NULL,
	CONSTRAINT "outputs_run_id_seq_pk" PRIMARY KEY("run_id","seq")
);
--> statement-breakpoint
CREATE TABLE "pawl"."runs" (
	"id" text PRIMARY KEY NOT NULL,
	"agent" text NOT NULL,
	"agent_version" text,
	"model" text,
	"language" text NOT NULL,
	"llm_name" text NOT NULL,
	"llm_timeout_ms" integer NOT NULL,
	"llm_attempts" integer NOT NULL,
	"status" text NOT NULL,
	"reason" text,
	"ending_status" text,
	"ending_reason" text,
	"ending_error_code" text,
	"ending_error_message" text,
	"ending_at" timestamp (3) with time zone,
	"finishing_as" text,
	"pause_at" timestamp (3) with time zone,
	"deadline_at" timestamp (3) with time zone,
	"max_steps" integer NOT NULL,
	"max_turns" integer NOT NULL,
	"deadline_ms" bigint,
	"on_limit" text NOT NULL,
	"rev" integer DEFAULT 0 NOT NULL,
	"writes" integer DEFAULT 0 NOT NULL,
	"next_seq" integer NOT NULL,
	"open_steps" integer NOT NULL,
	"suspended_steps" integer NOT NULL,
	"steps_used" integer NOT NULL,
	"turns_used" integer DEFAULT 0 NOT NULL,
	"input_tokens" bigint DEFAULT 0 NOT NULL,
	"cached_input_tokens" bigint DEFAULT 0 NOT NULL,
	"output_tokens" bigint DEFAULT 0 NOT NULL,
	"cost_usd" double precision,
	"usage_estimated" boolean DEFAULT false NOT NULL,
	"objections" integer DEFAULT 0 NOT NULL,
	"window_from" integer DEFAULT 0 NOT NULL,
	"last_event" integer DEFAULT 0 NOT NULL,
	"input_is_text" boolean NOT NULL,
	"input_hash" text NOT NULL,
	"output" text,
	"output_is_json" boolean DEFAULT false NOT NULL,
	"error_code" text,
	"error_message" text,
	"key" text,
	"tenant" text DEFAULT '' NOT NULL,
	"lane" text,
	"thread_id" text,
	"parent_id" text,
	"tags" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"started_at" timestamp (3) with time zone,
	"finished_at" timestamp (3) with time zone,
	CONSTRAINT "runs_status" CHECK (status in ('pending', 'running', 'suspended', 'completed', 'failed', 'cancelled')),
	CONSTRAINT "runs_reason" CHECK (reason is null or reason in ('max_steps', 'max_turns', 'max_tokens', 'max_cost', 'deadline', 'loop_detected', 'breaker_open', 'attempts_exhausted', 'crash_loop', 'claim_loop', 'unstorable', 'unknown_outcome', 'quota_exhausted', 'invalid_request', 'invalid_response', 'refused', 'content_filter', 'context_overflow', 'invalid_output', 'stopped_early', 'cancelled')),
	CONSTRAINT "runs_on_limit" CHECK (on_limit in ('finish', 'fail', 'suspend')),
	CONSTRAINT "runs_steps_match_status" CHECK (case
        when status in ('pending', 'running') then open_steps > suspended_steps and suspended_steps >= 0
        when status = 'suspended' then open_steps = suspended_steps and open_steps > 0
        else open_steps = 0 and suspended_steps = 0 end),
	CONSTRAINT "runs_end" CHECK ((status in ('completed', 'failed', 'cancelled')) = (finished_at is not null)),
	CONSTRAINT "runs_final_is_not_ending" CHECK (finished_at is null or (ending_at is null and pause_at is null)),
	CONSTRAINT "runs_ending_is_whole" CHECK ((ending_at is null) = (ending_status is null) and (ending_at is null) = (ending_reason is null)),
	CONSTRAINT "runs_failed_has_reason" CHECK (status not in ('failed', 'cancelled') or reason is not null),
	CONSTRAINT "runs_key_length" CHECK (key is null or length(key) between 1 and 255)
);
--> statement-breakpoint
CREATE TABLE "pawl"."steps" (
	"run_id" text NOT NULL,
	"seq" integer NOT NULL,
	"kind" text NOT NULL,
	"name" text NOT NULL,
	"queue" text NOT NULL,
	"status" text NOT NULL,
	"due_at" timestamp (3) with time zone NOT NULL,
	"dispatch" integer NOT NULL,
	"claim_token" uuid,
	"worker_id" text,
	"claimed_at" timestamp (3) with time zone,
	"claim_deadline" timestamp (3) with time zone,
	"attempt" integer NOT NULL,
	"failures" integer NOT NULL,
	"crashes" integer NOT NULL,
	"claims" integer NOT NULL,
	"suspect" boolean NOT NULL,
	"unknown" boolean NOT NULL,
	"deferrals" integer NOT NULL,
	"max_attempts" integer NOT NULL,
	"timeout_ms" integer NOT NULL,
	"waiting_for" text,
	"wait_detail" text,
	"turn_seq" integer,
	"position" integer,
	"call_id" text,
	"effect" text,
	"sequential" boolean NOT NULL,
	"call_hash" text,
	"idempotency_key" text,
	"input" text,
	"output" text,
	"error_code" text,
	"error_message" text,
	"input_tokens" integer,
	"cached_input_tokens" integer,
	"output_tokens" integer,
	"cost_usd" double precision,
	"usage_estimated" boolean,
	"shown_attempts" integer,
	"queued_at" timestamp (3) with time zone NOT NULL,
	"started_at" timestamp (3) with time zone,
	"finished_at" timestamp (3) with time zone,
	CONSTRAINT "steps_run_id_seq_pk" PRIMARY KEY("run_id","seq"),
	CONSTRAINT "steps_kind" CHECK (kind in ('llm', 'tool', 'wait')),
	CONSTRAINT "steps_status" CHECK (status in ('pending', 'running', 'suspended', 'completed', 'dead', 'cancelled')),
	CONSTRAINT "steps_effect" CHECK (effect is null or effect in ('none', 'idempotent', 'once')),
	CONSTRAINT "steps_waiting_for" CHECK (waiting_for is null or waiting_for in ('approval', 'timer', 'signal', 'child', 'outcome', 'operator', 'limit', 'slot', 'worker', 'batch', 'step')),
	CONSTRAINT "steps_suspended_names_its_wait" CHECK ((status = 'suspended') = (waiting_for is not null)),
	CONSTRAINT "steps_claim_matches_status" CHECK (case
        when status = 'running' then claim_token is not null
        when status in ('pending', 'suspended') then claim_token is null
        else true end),
	CONSTRAINT "steps_claim_is_whole" CHECK (num_nulls(claim_token, worker_id, claimed_at, claim_deadline) in (0, 4)),
	CONSTRAINT "steps_end" CHECK ((status in ('completed', 'dead', 'cancelled')) = (finished_at is not null)),
	CONSTRAINT "steps_tool_is_whole" CHECK ((kind = 'tool') = (num_nulls(turn_seq, position, call_id, effect, input) = 0)),
	CONSTRAINT "steps_dead_says_why" CHECK (status <> 'dead' or error_code is not null),
	CONSTRAINT "steps_once_has_one_attempt" CHECK (effect is distinct from 'once' or max_attempts = 1),
	CONSTRAINT "steps_unknown_is_once" CHECK (not unknown or effect is not distinct from 'once'),
	CONSTRAINT "steps_counts" CHECK (seq > 0 and dispatch >= 0 and attempt >= 0 and failures >= 0 and crashes >= 0 and claims >= 0)
);
--> statement-breakpoint
CREATE TABLE "pawl"."workers" (
	"id" text PRIMARY KEY NOT NULL,
	"host" text NOT NULL,
	"pid" integer NOT NULL,
	"role" text NOT NULL,
	"serves" text[] NOT NULL,
	"state" text DEFAULT 'live' NOT NULL,
	"beat" integer DEFAULT 0 NOT NULL,
	"tokens" uuid[] DEFAULT '{}' NOT NULL,
	"tokens_before" uuid[] DEFAULT '{}' NOT NULL,
	"beat_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"beat_before_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"loop_lag_ms" integer DEFAULT 0 NOT NULL,
	"started_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"ended_at" timestamp (3) with time zone,
	CONSTRAINT "workers_state" CHECK (state in ('live', 'stopped', 'dead')),
	CONSTRAINT "workers_end" CHECK ((state = 'live') = (ended_at is null))
);
--> statement-breakpoint
ALTER TABLE "pawl"."attempts" ADD CONSTRAINT "attempts_run_id_seq_steps_run_id_seq_fk" FOREIGN KEY ("run_id","seq") REFERENCES "pawl"."steps"("run_id","seq") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pawl"."events" ADD CONSTRAINT "events_run_id_runs_id_fk" FOREIGN KEY ("run_id") REFERENCES "pawl"."runs"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pawl"."messages" ADD CONSTRAINT "messages_run_id_runs_id_fk" FOREIGN KEY ("run_id") REFERENCES "pawl"."runs"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pawl"."outputs" ADD CONSTRAINT "outputs_run_id_seq_steps_run_id_seq_fk" FOREIGN KEY ("run_id","seq") REFERENCES "pawl"."steps"("run_id","seq") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pawl"."steps" ADD CONSTRAINT "steps_run_id_runs_id_fk" FOREIGN KEY ("run_id") REFERENCES "pawl"."runs"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "attempts_of_step" ON "pawl"."attempts" USING btree ("run_id","seq");--> statement-breakpoint
CREATE UNIQUE INDEX "runs_key" ON "pawl"."runs" USING btree ("tenant","agent","key") WHERE key is not null;--> statement-breakpoint
CREATE INDEX "runs_newest" ON "pawl"."runs" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "runs_deadline" ON "pawl"."runs" USING btree ("deadline_at") WHERE deadline_at is not null and finished_at is null;--> statement-breakpoint
CREATE UNIQUE INDEX "steps_one_per_call" ON "pawl"."steps" USING btree ("run_id","turn_seq","position") WHERE turn_seq is not null;--> statement-breakpoint
CREATE INDEX "steps_due" ON "pawl"."steps" USING btree ("due_at") WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX "steps_claimed" ON "pawl"."steps" USING btree ("worker_id") WHERE status = 'running';--> statement-breakpoint
CREATE INDEX "steps_waiting" ON "pawl"."steps" USING btree ("waiting_for") WHERE status = 'suspended';--> statement-breakpoint
CREATE INDEX "steps_dead_unshown" ON "pawl"."steps" USING btree ("run_id") WHERE status = 'dead' and shown_attempts is null;--> statement-breakpoint
CREATE INDEX "steps_once" ON "pawl"."steps" USING btree ("run_id","call_hash") WHERE effect = 'once';--> statement-breakpoint
CREATE INDEX "workers_by_state" ON "pawl"."workers" USING btree ("state");