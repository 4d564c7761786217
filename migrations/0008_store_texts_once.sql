ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_tool_is_whole";--> statement-breakpoint
ALTER TABLE "pawl"."instance" ALTER COLUMN "oldest_code" SET DEFAULT 9;--> statement-breakpoint
ALTER TABLE "pawl"."workers" ADD COLUMN "knows" integer NOT NULL DEFAULT 0;--> statement-breakpoint
ALTER TABLE "pawl"."workers" ALTER COLUMN "knows" DROP DEFAULT;--> statement-breakpoint
UPDATE "pawl"."instance" SET "oldest_code" = 9;--> statement-breakpoint
UPDATE "pawl"."workers" SET "state" = 'stopped', "ended_at" = now() WHERE "state" = 'live';--> statement-breakpoint
ALTER TABLE "pawl"."steps" SET (fillfactor = 60);--> statement-breakpoint
ALTER TABLE "pawl"."runs" SET (fillfactor = 60);--> statement-breakpoint
ALTER TABLE "pawl"."steps" ADD CONSTRAINT "steps_tool_is_whole" CHECK ((kind = 'tool') = (num_nulls(turn_seq, position, call_id, effect) = 0));