CREATE TABLE "pawl"."tool_results" (
	"key" text PRIMARY KEY NOT NULL,
	"body" text NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "pawl"."tool_stops" (
	"tool" text NOT NULL,
	"agent" text NOT NULL,
	"stopped_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "tool_stops_tool_agent_pk" PRIMARY KEY("tool","agent")
);
--> statement-breakpoint
ALTER TABLE "pawl"."steps" ADD COLUMN "note" text;--> statement-breakpoint
CREATE INDEX "tool_results_expiry" ON "pawl"."tool_results" USING btree ("expires_at");