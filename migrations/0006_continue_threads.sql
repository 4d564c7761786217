ALTER TABLE "pawl"."runs" ADD COLUMN "holds_thread" boolean DEFAULT false NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "runs_thread" ON "pawl"."runs" USING btree ("tenant","thread_id") WHERE holds_thread;--> statement-breakpoint
CREATE INDEX "runs_of_thread" ON "pawl"."runs" USING btree ("tenant","thread_id","created_at") WHERE thread_id is not null;--> statement-breakpoint
ALTER TABLE "pawl"."runs" ADD CONSTRAINT "runs_thread_is_held" CHECK (not holds_thread or (thread_id is not null and finished_at is null));--> statement-breakpoint
ALTER TABLE "pawl"."runs" ADD CONSTRAINT "runs_thread_length" CHECK (thread_id is null or length(thread_id) between 1 and 255);