-- Version 10 of the schema: tables and the functions by which proxies use them.
--
-- Functions that look for keys have enable_seqscan off. Their plans are kept, and one that is
-- made while a table has a page or two would read it from end to end when it is large, until
-- it is analyzed.
--
-- A role may call all functions with any arguments, in a session that it has prepared. So those
-- that run with the rights of their owner find no name outside of pg_catalog without its schema.

-- What each key has consumed: the fields of limit.State, and from when on the key is as
-- one never seen. No index but that of the names, so that every update is HOT.
CREATE @unlogged@ TABLE IF NOT EXISTS @schema@.keys (
  name bytea PRIMARY KEY, tag int8 NOT NULL, at int8 NOT NULL, a int8 NOT NULL, b int8 NOT NULL,
  began int8 NOT NULL, under int8 NOT NULL, expires int8 NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- The entries of sliding_log: that something was admitted at an instant, and how many
-- permits before, since the log was last empty.
CREATE @unlogged@ TABLE IF NOT EXISTS @schema@.log (
  name bytea, at int8, before int8 NOT NULL, expires int8 NOT NULL, PRIMARY KEY (name, at)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE IF NOT EXISTS @schema@.documents (name text PRIMARY KEY, version int8 NOT NULL, body bytea NOT NULL);
CREATE TABLE IF NOT EXISTS @schema@.leases (name text PRIMARY KEY, owner text NOT NULL, until timestamptz NOT NULL);

DO $$ BEGIN
  IF to_regtype('@schema@.settled_1') IS NULL THEN
    CREATE TYPE @schema@.settled_1 AS (at int8, a int8, b int8, adopted bool, x int8, y int8, free int8, began int8, under int8, base int8);
  END IF;
END $$;
