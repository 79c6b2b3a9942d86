-- Version 4 of the queue of deferred requests: tables and the functions by which proxies use
-- them.
--
-- Locks are taken in one order: lines by name, entries, clients by name, totals. An entry in a
-- line changes only while the lock of the line is held. Times are microseconds since 1970.

-- mode: a digest of the key with which entries are encrypted.
CREATE TABLE IF NOT EXISTS @schema@.deferred_about (name text PRIMARY KEY, value bytea NOT NULL);

CREATE TABLE IF NOT EXISTS @schema@.deferred_rules (rule text PRIMARY KEY, paused bool NOT NULL DEFAULT false);

-- What there is of each rule and state, 0 for both states of a line. The sum over all slots
-- counts: each connection adds to one of its own, so that none waits for another's commit. Slot 0
-- has what others had when a proxy was started.
CREATE TABLE IF NOT EXISTS @schema@.deferred_totals (
  rule text, state int8, slot int8, entries int8 NOT NULL, bytes int8 NOT NULL, PRIMARY KEY (rule, state, slot)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- What clients have in lines; more columns are below.
CREATE TABLE IF NOT EXISTS @schema@.deferred_clients (
  name uuid PRIMARY KEY, entries int8 NOT NULL, bytes int8 NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- The lines that have entries. due is when the first of those is that may be claimed, null when
-- there is none; served is when one was last claimed or settled, so that lines take turns.
CREATE TABLE IF NOT EXISTS @schema@.lines (
  name uuid PRIMARY KEY, rule text NOT NULL, entries int8 NOT NULL DEFAULT 0, bytes int8 NOT NULL DEFAULT 0,
  parallel int8 NOT NULL DEFAULT 1, due int8, served int8 NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX IF NOT EXISTS lines_due ON @schema@.lines (rule, due) WHERE due IS NOT NULL;

CREATE SEQUENCE IF NOT EXISTS @schema@.deferred_seq;
CREATE SEQUENCE IF NOT EXISTS @schema@.deferred_token; -- of version 1

-- Entries. States: 0 waiting, 1 delivering, 2 done, 3 failed, 4 expired, 5 unknown,
-- 6 cancelled; 7 stands for one that must not be stored any more. until is when a lease passes;
-- unsent: the lease is of one that has expired, so that nothing is sent; cut is when a delivery
-- was cut off last, if nothing has ended since; print without scope: it was stored anew; parallel is that of its line. Those of type bytea
-- may be encrypted.
CREATE TABLE IF NOT EXISTS @schema@.deferred (
  id uuid PRIMARY KEY, line uuid NOT NULL, rule text NOT NULL, client uuid, seq int8 NOT NULL, state int8 NOT NULL,
  accepted int8 NOT NULL, expires int8 NOT NULL, due int8 NOT NULL, attempts int8 NOT NULL DEFAULT 0,
  token int8 NOT NULL DEFAULT 0, until int8, unsent bool NOT NULL DEFAULT false, cut int8, forget int8,
  scope uuid, print uuid,
  size int8 NOT NULL, request_size int8 NOT NULL DEFAULT 0, last_size int8 NOT NULL DEFAULT 0, answer_size int8 NOT NULL DEFAULT 0,
  about bytea, request bytea, last bytea, result bytea, answer bytea
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
ALTER TABLE @schema@.deferred ADD COLUMN IF NOT EXISTS parallel int8 NOT NULL DEFAULT 1;
CREATE INDEX IF NOT EXISTS deferred_line ON @schema@.deferred (line, seq) WHERE state <= 1;
CREATE INDEX IF NOT EXISTS deferred_rule ON @schema@.deferred (rule, state, seq);
CREATE UNIQUE INDEX IF NOT EXISTS deferred_scope ON @schema@.deferred (scope) WHERE scope IS NOT NULL;
CREATE INDEX IF NOT EXISTS deferred_until ON @schema@.deferred (until) WHERE state = 1;
CREATE INDEX IF NOT EXISTS deferred_forget ON @schema@.deferred (forget) WHERE forget IS NOT NULL;
CREATE INDEX IF NOT EXISTS deferred_kept ON @schema@.deferred (coalesce(client, '00000000-0000-0000-0000-000000000000'), seq) WHERE state BETWEEN 2 AND 6;

-- What clients have in final entries; those that are not from a client count for the zero name.
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = '@schema@.deferred_clients'::pg_catalog.regclass AND a.attname = 'kept_bytes') THEN
    LOCK TABLE @schema@.deferred IN SHARE ROW EXCLUSIVE MODE;
    ALTER TABLE @schema@.deferred_clients ADD COLUMN kept_entries int8 NOT NULL DEFAULT 0, ADD COLUMN kept_bytes int8 NOT NULL DEFAULT 0;
    INSERT INTO @schema@.deferred_clients (name, entries, bytes, kept_entries, kept_bytes)
      SELECT coalesce(d.client, '00000000-0000-0000-0000-000000000000'), 0, 0, count(*), sum(d.size) FROM @schema@.deferred d WHERE d.state BETWEEN 2 AND 6 GROUP BY 1
      ON CONFLICT ON CONSTRAINT deferred_clients_pkey DO UPDATE SET kept_entries = excluded.kept_entries, kept_bytes = excluded.kept_bytes;
  END IF;
END $$;
CREATE INDEX IF NOT EXISTS deferred_clients_kept ON @schema@.deferred_clients (kept_bytes) WHERE kept_entries > 1;

DO $$ BEGIN
  IF to_regtype('@schema@.deferred_entry_1') IS NULL THEN
    CREATE TYPE @schema@.deferred_entry_1 AS (id uuid, seq int8, state int8, accepted int8, expires int8, due int8, attempts int8,
      token int8, cut int8, about bytea, request bytea, last bytea, result bytea);
    CREATE TYPE @schema@.deferred_change_1 AS (rule text, line uuid, client uuid, was int8, was_size int8, became int8, became_size int8);
    CREATE TYPE @schema@.deferred_stat_1 AS (rule text, state int8, entries int8, bytes int8);
    CREATE TYPE @schema@.deferred_told_1 AS (outcome int8, bound int8, id uuid, state int8, place int8, due int8, expires int8);
  END IF;
END $$;

-- Begins a function that writes: returns the time, which is clock if that is not 0.
CREATE OR REPLACE FUNCTION @schema@.deferred_begin_1(clock int8) RETURNS int8 LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'entries are stored at isolation level READ COMMITTED' USING ERRCODE = 'WR001';
  ELSIF current_setting('transaction_read_only')::bool THEN
    RAISE EXCEPTION 'the server or the database is read-only' USING ERRCODE = 'read_only_sql_transaction';
  END IF;
  PERFORM set_config('lock_timeout', '2000', true);
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  RETURN CASE WHEN clock <> 0 THEN clock ELSE (extract(epoch FROM clock_timestamp()) * 1000000)::int8 END;
END $$;

-- What there is: entries and bytes of each rule and state, of state 0 those of both states of a
-- line; and for each rule a row with state -1, or -2 when it is paused, whose bytes are when
-- the first entry in a line was accepted.
CREATE OR REPLACE FUNCTION @schema@.deferred_stats_1() RETURNS @schema@.deferred_stat_1[] LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
  SELECT array_agg(ROW(s.rule, s.state, s.entries, s.bytes)::@schema@.deferred_stat_1) FROM (
    SELECT t.rule, t.state, sum(t.entries)::int8 AS entries, sum(t.bytes)::int8 AS bytes FROM @schema@.deferred_totals t GROUP BY t.rule, t.state
    UNION ALL SELECT d.rule, 1, count(*), sum(d.size)::int8 FROM @schema@.deferred d WHERE d.state = 1 GROUP BY d.rule
    UNION ALL SELECT r.rule, CASE WHEN r.paused THEN -2 ELSE -1 END, 0, coalesce(least(
        (SELECT d.accepted FROM @schema@.deferred d WHERE d.rule = r.rule AND d.state = 0 ORDER BY d.seq LIMIT 1),
        (SELECT d.accepted FROM @schema@.deferred d WHERE d.rule = r.rule AND d.state = 1 ORDER BY d.seq LIMIT 1)), 0)
      FROM @schema@.deferred_rules r) s
$$;

-- Locks lines, of which there may be fewer.
CREATE OR REPLACE FUNCTION @schema@.deferred_lock_1(names uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM @schema@.lines l WHERE l.name = ANY (names) ORDER BY l.name FOR UPDATE;
END $$;

-- Makes lines that are missing, and locks all.
CREATE OR REPLACE FUNCTION @schema@.deferred_make_1(names uuid[], rules text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  n bigint;
BEGIN
  INSERT INTO @schema@.deferred_rules SELECT DISTINCT u.rule FROM unnest(rules) u (rule)
    WHERE NOT EXISTS (SELECT FROM @schema@.deferred_rules r WHERE r.rule = u.rule) ORDER BY 1 ON CONFLICT DO NOTHING;
  INSERT INTO @schema@.lines (name, rule) SELECT u.name, u.rule FROM unnest(names, rules) u (name, rule)
    WHERE NOT EXISTS (SELECT FROM @schema@.lines l WHERE l.name = u.name) ORDER BY 1 ON CONFLICT DO NOTHING;
  PERFORM FROM @schema@.lines l WHERE l.name = ANY (names) ORDER BY l.name FOR UPDATE;
  GET DIAGNOSTICS n = ROW_COUNT;
  IF n < cardinality(names) THEN -- one has gone meanwhile
    RAISE EXCEPTION 'a line has ended' USING ERRCODE = 'serialization_failure';
  END IF;
END $$;

-- Has lines, clients and totals follow what has become of entries, whose lines are locked. They
-- count as served at that time, unless it is null. A change without a line is of an entry that
-- was in none; one without a client of an entry that is not from one.
CREATE OR REPLACE FUNCTION @schema@.deferred_apply_1(which int8, at int8, changes @schema@.deferred_change_1[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  touched pg_catalog.uuid[];
BEGIN
  IF changes IS NULL THEN
    RETURN;
  END IF;
  touched := array(SELECT DISTINCT c.line FROM unnest(changes) c WHERE c.line IS NOT NULL);
  UPDATE @schema@.lines l SET entries = l.entries + x.n, bytes = l.bytes + x.b, served = coalesce(at, l.served), due = (
      SELECT min(greatest(least(w.due, w.expires), coalesce(at, l.served))) FILTER (WHERE w.state = 0)
      FROM (SELECT d.state, d.due, d.expires FROM @schema@.deferred d WHERE d.line = l.name AND d.state <= 1 ORDER BY d.seq LIMIT l.parallel) w)
    FROM (SELECT c.line, sum((coalesce(c.became, 9) <= 1)::int4 - (coalesce(c.was, 9) <= 1)::int4) AS n,
        sum(CASE WHEN c.became <= 1 THEN c.became_size ELSE 0 END - CASE WHEN c.was <= 1 THEN c.was_size ELSE 0 END) AS b
      FROM unnest(changes) c GROUP BY c.line) x WHERE l.name = x.line;
  DELETE FROM @schema@.lines l WHERE l.name = ANY (touched) AND l.entries <= 0;
  touched := array(SELECT DISTINCT coalesce(c.client, '00000000-0000-0000-0000-000000000000') FROM unnest(changes) c
    WHERE c.was IS NOT NULL AND coalesce(c.became, 9) > 1);
  INSERT INTO @schema@.deferred_clients AS t (name, entries, bytes, kept_entries, kept_bytes)
    SELECT y.* FROM (
      SELECT x.name, sum(x.n * x.open) AS n, sum(x.b * x.open) AS b, sum(x.n * (1 - x.open)) AS kept_n, sum(x.b * (1 - x.open)) AS kept_b FROM (
        SELECT coalesce(c.client, '00000000-0000-0000-0000-000000000000') AS name, (v.state <= 1)::int4 AS open, v.n, v.n * v.size AS b
        FROM unnest(changes) c CROSS JOIN LATERAL (VALUES (c.was, -1, c.was_size), (c.became, 1, c.became_size)) v (state, n, size)
        WHERE v.state > 1 OR v.state <= 1 AND c.client IS NOT NULL) x
      GROUP BY x.name) y
    WHERE y.n <> 0 OR y.b <> 0 OR y.kept_n <> 0 OR y.kept_b <> 0 ORDER BY y.name
    ON CONFLICT ON CONSTRAINT deferred_clients_pkey DO UPDATE SET entries = t.entries + excluded.entries, bytes = t.bytes + excluded.bytes,
      kept_entries = t.kept_entries + excluded.kept_entries, kept_bytes = t.kept_bytes + excluded.kept_bytes;
  IF touched <> '{}' THEN
    DELETE FROM @schema@.deferred_clients t WHERE t.name = ANY (touched) AND t.entries <= 0 AND t.kept_entries <= 0;
  END IF;
  INSERT INTO @schema@.deferred_totals AS t SELECT x.rule, x.state, which, sum(x.n), sum(x.b) FROM (
      SELECT c.rule, CASE WHEN c.was <= 1 THEN 0 ELSE c.was END AS state, -1 AS n, -c.was_size AS b FROM unnest(changes) c WHERE c.was IS NOT NULL
      UNION ALL SELECT c.rule, CASE WHEN c.became <= 1 THEN 0 ELSE c.became END, 1, c.became_size FROM unnest(changes) c WHERE c.became IS NOT NULL) x
    GROUP BY x.rule, x.state HAVING sum(x.n) <> 0 OR sum(x.b) <> 0 ORDER BY x.rule, x.state
    ON CONFLICT ON CONSTRAINT deferred_totals_pkey DO UPDATE SET entries = t.entries + excluded.entries, bytes = t.bytes + excluded.bytes;
END $$;

-- The place of an entry in its line, from 1.
CREATE OR REPLACE FUNCTION @schema@.deferred_place_1(which uuid, number int8) RETURNS int8 LANGUAGE sql STABLE AS $$
  SELECT count(*) FROM @schema@.deferred d WHERE d.line = which AND d.state <= 1 AND d.seq <= number
$$;

-- Finds out how the queue is encrypted: as mode says, if there are no entries yet. Tells what is
-- so, and what an entry survives once it is stored. Folds totals, so that they stay few.
CREATE OR REPLACE FUNCTION @schema@.deferred_open_1(mode bytea, OUT known bytea, OUT durability text, OUT stats @schema@.deferred_stat_1[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
  PERFORM @schema@.deferred_begin_1(0);
  IF NOT EXISTS (SELECT FROM @schema@.deferred_about a WHERE a.name = 'mode' AND a.value = mode) THEN
    LOCK TABLE @schema@.deferred IN SHARE ROW EXCLUSIVE MODE;
    IF NOT EXISTS (SELECT FROM @schema@.deferred) THEN
      INSERT INTO @schema@.deferred_about AS a VALUES ('mode', mode) ON CONFLICT ON CONSTRAINT deferred_about_pkey DO UPDATE SET value = excluded.value;
    END IF;
  END IF;
  SELECT a.value INTO known FROM @schema@.deferred_about a WHERE a.name = 'mode';
  WITH o AS MATERIALIZED (SELECT t.rule, t.state, t.slot FROM @schema@.deferred_totals t WHERE t.slot > 0 FOR UPDATE SKIP LOCKED),
    x AS (DELETE FROM @schema@.deferred_totals t USING o WHERE t.rule = o.rule AND t.state = o.state AND t.slot = o.slot RETURNING t.*)
    INSERT INTO @schema@.deferred_totals AS t SELECT x.rule, x.state, 0, sum(x.entries), sum(x.bytes) FROM x GROUP BY x.rule, x.state ORDER BY x.rule, x.state
    ON CONFLICT ON CONSTRAINT deferred_totals_pkey DO UPDATE SET entries = t.entries + excluded.entries, bytes = t.bytes + excluded.bytes;
  durability := CASE WHEN NOT current_setting('fsync')::bool THEN 'memory'
    WHEN current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') NOT IN ('off', 'local') THEN 'fsync, standby'
    ELSE 'fsync' END;
  stats := @schema@.deferred_stats_1();
END $$;
