CREATE TABLE "pawl"."facts" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "pawl"."facts_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"tenant" text DEFAULT '' NOT NULL,
	"scope" text NOT NULL,
	"owner" text NOT NULL,
	"key" text NOT NULL,
	"value" text NOT NULL,
	"words" text NOT NULL,
	"run_id" text NOT NULL,
	"seq" integer NOT NULL,
	"at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "facts_scope" CHECK (scope in ('agent', 'tenant', 'thread')),
	CONSTRAINT "facts_sizes" CHECK (length(key) between 1 and 100 and length(value) between 1 and 2000)
);
--> statement-breakpoint
CREATE INDEX "facts_of" ON "pawl"."facts" USING btree ("tenant","scope","owner","key","id" DESC NULLS LAST);--> statement-breakpoint
-- Facts are found by the letters of a word, too, where the extension can be had. Nothing fails where it cannot.
DO $$ BEGIN
	CREATE EXTENSION IF NOT EXISTS pg_trgm;
EXCEPTION WHEN OTHERS THEN
	RAISE NOTICE 'pg_trgm cannot be had here (%): facts are recalled by whole words', SQLERRM;
END $$;
