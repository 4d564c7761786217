ALTER TABLE "pawl"."runs" ADD COLUMN "conduct" text;--> statement-breakpoint
ALTER TABLE "pawl"."runs" ADD CONSTRAINT "runs_conduct_is_an_object" CHECK (conduct is null or conduct like '{%}');