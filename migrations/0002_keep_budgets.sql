ALTER TABLE "pawl"."runs" ADD COLUMN "max_tokens" bigint;--> statement-breakpoint
ALTER TABLE "pawl"."runs" ADD COLUMN "max_cost_usd" double precision;--> statement-breakpoint
ALTER TABLE "pawl"."runs" ADD COLUMN "reserve_input" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "pawl"."runs" ADD COLUMN "reserve_output" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "pawl"."runs" ADD COLUMN "reserve_usd" double precision;--> statement-breakpoint
ALTER TABLE "pawl"."runs" ADD CONSTRAINT "runs_budgets" CHECK ((max_tokens is null or max_tokens > 0) and (max_cost_usd is null or max_cost_usd > 0));--> statement-breakpoint
ALTER TABLE "pawl"."runs" ADD CONSTRAINT "runs_reserve" CHECK (reserve_input >= 0 and reserve_output >= 0 and (reserve_usd is null or reserve_usd >= 0));