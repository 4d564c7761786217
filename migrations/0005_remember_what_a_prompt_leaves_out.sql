ALTER TABLE "pawl"."runs" ADD COLUMN "digest_before" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "pawl"."runs" ADD COLUMN "summary_seq" integer;--> statement-breakpoint
ALTER TABLE "pawl"."runs" ADD COLUMN "budget_tokens" integer;