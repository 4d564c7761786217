ALTER TABLE "pawl"."facts" ADD COLUMN "vector" "bytea";--> statement-breakpoint
ALTER TABLE "pawl"."facts" ADD COLUMN "vector_model" text;--> statement-breakpoint
ALTER TABLE "pawl"."facts" ADD CONSTRAINT "facts_vector" CHECK ((vector is null) = (vector_model is null));