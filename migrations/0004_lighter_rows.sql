ALTER TABLE "pawl"."attempts" DROP CONSTRAINT "attempts_run_id_seq_steps_run_id_seq_fk";
--> statement-breakpoint
ALTER TABLE "pawl"."events" DROP CONSTRAINT "events_run_id_runs_id_fk";
--> statement-breakpoint
ALTER TABLE "pawl"."messages" DROP CONSTRAINT "messages_run_id_runs_id_fk";
--> statement-breakpoint
ALTER TABLE "pawl"."outputs" DROP CONSTRAINT "outputs_run_id_seq_steps_run_id_seq_fk";
--> statement-breakpoint
ALTER TABLE "pawl"."steps" DROP CONSTRAINT "steps_run_id_runs_id_fk";
--> statement-breakpoint
CREATE FUNCTION "pawl"."delete_rows_of_runs"() RETURNS trigger LANGUAGE plpgsql AS $$
begin
  delete from pawl.attempts where run_id in (select id from gone);
  delete from pawl.outputs where run_id in (select id from gone);
  delete from pawl.messages where run_id in (select id from gone);
  delete from pawl.events where run_id in (select id from gone);
  delete from pawl.steps where run_id in (select id from gone);
  return null;
end $$;
--> statement-breakpoint
CREATE TRIGGER "runs_take_their_rows" AFTER DELETE ON "pawl"."runs"
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION "pawl"."delete_rows_of_runs"();
