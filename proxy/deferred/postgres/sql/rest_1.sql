-- Has the lines of a rule wait, or go on.
CREATE OR REPLACE FUNCTION @schema@.deferred_pause_1(which text, wait bool, OUT stats @schema@.deferred_stat_1[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
  PERFORM @schema@.deferred_begin_1(0);
  INSERT INTO @schema@.deferred_rules VALUES (which, wait) ON CONFLICT ON CONSTRAINT deferred_rules_pkey DO UPDATE SET paused = excluded.paused;
  stats := @schema@.deferred_stats_1();
END $$;

-- An entry, and its place in its line, 0 when it is in none.
CREATE OR REPLACE FUNCTION @schema@.deferred_read_1(which uuid, OUT place int8, OUT entries @schema@.deferred_entry_1[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
  SELECT CASE WHEN d.state <= 1 THEN @schema@.deferred_place_1(d.line, d.seq) ELSE 0 END,
    ARRAY[ROW(d.id, d.seq, d.state, d.accepted, d.expires, d.due, d.attempts, d.token, d.cut, d.about, d.request, d.last, coalesce(d.answer, d.result))::@schema@.deferred_entry_1]
  FROM (SELECT) x LEFT JOIN @schema@.deferred d ON d.id = which AND d.state < 7
$$;

-- Whether there is an entry with a scope, except one that is over and was never sent.
CREATE OR REPLACE FUNCTION @schema@.deferred_known_1(which uuid, OUT known int8)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
  SELECT count(*) FROM @schema@.deferred d WHERE d.scope = which AND NOT (d.state IN (4, 6) AND d.attempts = 0 AND d.last IS NULL AND d.cut IS NULL)
$$;

-- At most most entries of a rule, or all rules if it is empty, that are in a state, without their
-- requests and answers, from behind a number on.
CREATE OR REPLACE FUNCTION @schema@.deferred_list_1(which text, chosen int8, behind int8, most int8, OUT entries @schema@.deferred_entry_1[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
  SELECT array_agg(ROW(o.id, o.seq, o.state, o.accepted, o.expires, o.due, o.attempts, o.token, o.cut, o.about, NULL, o.last, o.result)::@schema@.deferred_entry_1 ORDER BY o.seq) FROM (
    SELECT d.* FROM @schema@.deferred_rules r CROSS JOIN LATERAL (
        SELECT e.* FROM @schema@.deferred e WHERE e.rule = r.rule AND e.state = chosen AND e.seq > behind ORDER BY e.seq LIMIT most) d
      WHERE which = '' OR r.rule = which ORDER BY d.seq LIMIT most) o
$$;

-- The version of all this, of which a program must know all.
CREATE OR REPLACE FUNCTION @schema@.deferred_version() RETURNS int4 LANGUAGE sql IMMUTABLE AS 'SELECT 4';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @schema@ FROM PUBLIC;
