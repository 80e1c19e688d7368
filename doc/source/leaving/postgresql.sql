-- Removes all that placement_sched added to a database of OpenStack placement, or nothing at all.
\set ON_ERROR_STOP on
BEGIN;
-- Without a notice of each trigger that goes with its function.
SET LOCAL client_min_messages = warning;
-- In the schema that has the tables, whoever runs this: an administrator's search_path may lack it.
DO $$
DECLARE
  place name;
BEGIN
  SELECT nspname INTO STRICT place
  FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
  WHERE relname = 'placement_sched_alembic_version';
  PERFORM set_config('search_path', quote_ident(place), true);
EXCEPTION
  WHEN no_data_found THEN
    RAISE EXCEPTION 'no schema of this database has tables of placement_sched';
  WHEN too_many_rows THEN
    RAISE EXCEPTION 'several schemas of this database have tables of placement_sched';
END $$;
-- The triggers first: without their tables nothing could be written. They go with their functions.
DROP FUNCTION IF EXISTS sched_log_by_id() CASCADE;
DROP FUNCTION IF EXISTS sched_log_by_resource_provider_id() CASCADE;
DROP FUNCTION IF EXISTS sched_log_names() CASCADE;
DROP INDEX IF EXISTS sched_allocations_consumer_id_idx;
DROP TABLE IF EXISTS sched_image_tags;
DROP TABLE IF EXISTS sched_image_properties;
DROP TABLE IF EXISTS sched_flavor_projects;
DROP TABLE IF EXISTS sched_flavor_extra_specs;
DROP TABLE IF EXISTS sched_aggregate_metadata;
DROP TABLE IF EXISTS sched_aggregate_hosts;
DROP TABLE IF EXISTS sched_synced_traits;
DROP TABLE IF EXISTS sched_shadow_results;
DROP TABLE IF EXISTS sched_services;
DROP TABLE IF EXISTS sched_server_groups;
DROP TABLE IF EXISTS sched_provider_changes;
DROP TABLE IF EXISTS sched_plan_runs;
DROP TABLE IF EXISTS sched_plan_moves;
DROP TABLE IF EXISTS sched_leases;
DROP TABLE IF EXISTS sched_last_writes;
DROP TABLE IF EXISTS sched_instances;
DROP TABLE IF EXISTS sched_images;
DROP TABLE IF EXISTS sched_flavors;
DROP TABLE IF EXISTS sched_embedded_flavors;
DROP TABLE IF EXISTS sched_decisions;
DROP TABLE IF EXISTS sched_decision_places;
DROP TABLE IF EXISTS sched_decision_notices;
DROP TABLE IF EXISTS sched_failover_results;
DROP TABLE IF EXISTS sched_compute_nodes;
DROP TABLE IF EXISTS sched_commit_marks;
DROP TABLE IF EXISTS sched_change_counters;
DROP TABLE IF EXISTS sched_cells;
DROP TABLE IF EXISTS sched_aggregates;
DROP TABLE IF EXISTS placement_sched_alembic_version;
COMMIT;
