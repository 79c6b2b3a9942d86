-- Takes back what has a lease that has passed, forgets final entries whose time has passed, and
-- claims at most so many entries that are due.
--
--   deadline  when nobody waits for the answer any more: then nothing is claimed; 0: never
--   mode      as deferred_open_1 has told
--   keep      how long an entry is kept that becomes unknown
--   mine      the token of what is claimed
--   lost      tokens of claims whose answers never came: what they have goes back to its line
--   spared    rules of which nothing is claimed
--
-- next is when there is something to do, null for never; gone is how many entries of each rule have
-- become unknown.
CREATE OR REPLACE FUNCTION @schema@.deferred_claim_3(
  clock int8, deadline int8, slot int8, mode bytea, most int8, lease int8, keep int8, mine int8, lost int8[], spared text[],
  OUT instant int8, OUT next int8, OUT entries @schema@.deferred_entry_1[], OUT gone @schema@.deferred_stat_1[], OUT stats @schema@.deferred_stat_1[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  names uuid[];
  ids uuid[];
  changes @schema@.deferred_change_1[];
BEGIN
  instant := @schema@.deferred_begin_1(clock);
  IF deadline > 0 AND instant > deadline THEN
    next := instant;
    stats := @schema@.deferred_stats_1();
    RETURN;
  END IF;
  names := array(SELECT DISTINCT o.line FROM (SELECT d.line FROM @schema@.deferred d WHERE d.state = 1 AND d.until <= instant ORDER BY d.until LIMIT 256) o);
  IF lost <> '{}' THEN
    names := names || array(SELECT DISTINCT d.line FROM @schema@.deferred d WHERE d.state = 1 AND d.token = ANY (lost));
  END IF;
  IF names <> '{}' THEN
    names := array(SELECT l.name FROM @schema@.lines l WHERE l.name = ANY (names) ORDER BY l.name FOR UPDATE SKIP LOCKED);
    WITH o AS MATERIALIZED (
        SELECT d.id, d.size, d.unsent OR d.token = ANY (lost) AS unsent FROM @schema@.deferred d
        WHERE d.state = 1 AND (d.until <= instant OR d.token = ANY (lost)) AND d.line = ANY (names)),
      u AS (UPDATE @schema@.deferred d SET state = CASE WHEN o.unsent OR d.scope IS NOT NULL THEN 0 ELSE 5 END,
          attempts = d.attempts + CASE WHEN o.unsent OR d.scope IS NULL THEN 0 ELSE 1 END,
          due = CASE WHEN o.unsent THEN d.due ELSE instant END, cut = CASE WHEN o.unsent THEN d.cut ELSE instant END,
          last = CASE WHEN o.unsent THEN d.last END, last_size = CASE WHEN o.unsent THEN d.last_size ELSE 24 END,
          size = d.size + CASE WHEN o.unsent THEN 0 ELSE 24 - d.last_size END,
          forget = CASE WHEN o.unsent OR d.scope IS NOT NULL THEN NULL ELSE instant + keep END, until = NULL, unsent = false, token = 0
        FROM o WHERE d.id = o.id AND d.state = 1 AND (d.until <= instant OR d.token = ANY (lost))
        RETURNING d.rule, d.line, d.client, 1, o.size, d.state, d.size)
      SELECT array_agg(ROW(u.*)::@schema@.deferred_change_1) INTO changes FROM u;
    PERFORM @schema@.deferred_apply_1(slot, instant, changes);
    SELECT array_agg(ROW(g.rule, g.became, g.n, 0)::@schema@.deferred_stat_1) INTO gone FROM (
      SELECT c.rule, c.became, count(*) AS n FROM unnest(changes) c WHERE c.became = 5 GROUP BY c.rule, c.became) g;
  END IF;

  WITH o AS MATERIALIZED (
      SELECT d.id FROM @schema@.deferred d WHERE d.forget <= instant ORDER BY d.forget LIMIT 256 FOR UPDATE SKIP LOCKED),
    x AS (DELETE FROM @schema@.deferred d USING o WHERE d.id = o.id RETURNING d.rule, d.client, d.state, d.size)
    SELECT array_agg(ROW(x.rule, NULL, x.client, x.state, x.size, NULL, NULL)::@schema@.deferred_change_1) INTO changes FROM x WHERE x.state < 7;
  PERFORM @schema@.deferred_apply_1(slot, NULL, changes);

  names := array(SELECT c.name FROM @schema@.deferred_rules r CROSS JOIN LATERAL (
      SELECT l.name, l.due FROM @schema@.lines l WHERE l.rule = r.rule AND l.due <= instant ORDER BY l.due LIMIT most) c
    WHERE NOT r.paused AND r.rule <> ALL (spared) ORDER BY c.due LIMIT most);
  IF names <> '{}' THEN
    names := array(SELECT l.name FROM @schema@.lines l WHERE l.name = ANY (names) AND l.due <= instant ORDER BY l.name FOR UPDATE SKIP LOCKED);
    ids := array(SELECT o.id FROM (
        SELECT w.id, row_number() OVER turn AS n, sum(w.size) OVER turn - w.size AS before FROM @schema@.lines l CROSS JOIN LATERAL (
            SELECT v.id, v.seq, v.size FROM (SELECT d.id, d.seq, d.state, d.due, d.expires, d.size FROM @schema@.deferred d WHERE d.line = l.name AND d.state <= 1 ORDER BY d.seq LIMIT l.parallel) v
            WHERE v.state = 0 AND least(v.due, v.expires) <= instant) w
          WHERE l.name = ANY (names) WINDOW turn AS (ORDER BY l.due, w.seq)) o
      WHERE o.n <= most AND o.before < 33554432 ORDER BY o.n); -- a value has at most 1 GB
    WITH u AS (UPDATE @schema@.deferred d SET state = 1, token = mine, until = instant + lease, unsent = d.expires <= instant
        WHERE d.id = ANY (ids) RETURNING d.*)
      SELECT array_agg(ROW(u.id, u.seq, u.state, u.accepted, u.expires, u.due, u.attempts, u.token, u.cut, u.about, u.request, u.last, coalesce(u.answer, u.result))::@schema@.deferred_entry_1
          ORDER BY array_position(ids, u.id)),
        array_agg(ROW(u.rule, u.line, u.client, 0, u.size, 1, u.size)::@schema@.deferred_change_1)
      INTO entries, changes FROM u;
    PERFORM @schema@.deferred_apply_1(slot, instant, changes);
  END IF;
  IF NOT EXISTS (SELECT FROM @schema@.deferred_about a WHERE a.name = 'mode' AND a.value = mode) THEN -- it cannot change any more if there is an entry
    RAISE EXCEPTION 'the queue is not encrypted with this key' USING ERRCODE = 'WR002';
  END IF;

  next := least(
    (SELECT min((SELECT l.due FROM @schema@.lines l WHERE l.rule = r.rule AND l.due IS NOT NULL ORDER BY l.due LIMIT 1)) FROM @schema@.deferred_rules r WHERE NOT r.paused AND r.rule <> ALL (spared)),
    (SELECT d.until FROM @schema@.deferred d WHERE d.state = 1 ORDER BY d.until LIMIT 1),
    (SELECT d.forget FROM @schema@.deferred d WHERE d.forget IS NOT NULL ORDER BY d.forget LIMIT 1));
  stats := @schema@.deferred_stats_1();
END $$;

-- Extends leases. Returns for each whether it is one.
CREATE OR REPLACE FUNCTION @schema@.deferred_renew_1(clock int8, lease int8, ids uuid[], tokens int8[], OUT instant int8, OUT held int8[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
  instant := @schema@.deferred_begin_1(clock);
  WITH o AS MATERIALIZED ( -- one that is locked is just being settled or taken back
      SELECT d.id FROM unnest(ids, tokens) u (id, token) JOIN @schema@.deferred d ON d.id = u.id AND d.token = u.token WHERE d.state = 1 ORDER BY d.id FOR UPDATE OF d SKIP LOCKED)
    UPDATE @schema@.deferred d SET until = instant + lease FROM o WHERE d.id = o.id;
  held := array(SELECT (d.id IS NOT NULL)::int4::int8 FROM unnest(ids, tokens) WITH ORDINALITY u (id, token, i)
    LEFT JOIN @schema@.deferred d ON d.id = u.id AND d.token = u.token AND d.state = 1 ORDER BY u.i);
END $$;
