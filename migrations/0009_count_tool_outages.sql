CREATE TABLE "pawl"."tool_outages" (
	"agent" text NOT NULL,
	"tool" text NOT NULL,
	"failed" integer NOT NULL,
	"calls" integer NOT NULL,
	"runs" text[] NOT NULL,
	"since_at" timestamp (3) with time zone NOT NULL,
	"opened_at" timestamp (3) with time zone,
	"trial_at" timestamp (3) with time zone,
	"trials" integer NOT NULL,
	CONSTRAINT "tool_outages_agent_tool_pk" PRIMARY KEY("agent","tool"),
	CONSTRAINT "tool_outages_trial" CHECK ((opened_at is null) = (trial_at is null))
);
