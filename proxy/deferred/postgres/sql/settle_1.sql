-- Says what became of claimed entries, each of which is there once.
--
--   numbers  for each the state that it gets, when it is due, whether it was an attempt, the size
--            of last and that of answer (-1: as they were), and for how long it is kept
--   lasts    how the last attempt ended; null: as it was
--   results  what lists tell of the target's answer, answers the whole of it; null: as they were
--
-- Returns for each 1, 0 when the lease is lost, or 2 when that lease was settled already.
CREATE OR REPLACE FUNCTION @schema@.deferred_settle_1(
  clock int8, slot int8, ids uuid[], tokens int8[], numbers int8[], lasts bytea[], results bytea[], answers bytea[],
  OUT instant int8, OUT held int8[], OUT stats @schema@.deferred_stat_1[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  changes @schema@.deferred_change_1[];
BEGIN
  instant := @schema@.deferred_begin_1(clock);
  PERFORM @schema@.deferred_lock_1(array(SELECT DISTINCT d.line FROM @schema@.deferred d WHERE d.id = ANY (ids) AND d.state = 1));
  held := array(SELECT CASE WHEN d.id IS NULL THEN 0 WHEN d.state = 1 THEN 1 ELSE 2 END::int8 FROM unnest(ids, tokens) WITH ORDINALITY u (id, token, i)
    LEFT JOIN @schema@.deferred d ON d.id = u.id AND d.token = u.token ORDER BY u.i);
  WITH o AS MATERIALIZED (
      SELECT d.id, d.size, u.token, numbers[6 * u.i - 5] AS state, numbers[6 * u.i - 4] AS due, numbers[6 * u.i - 3] AS attempt, numbers[6 * u.i - 2] AS last_size,
        numbers[6 * u.i - 1] AS answer_size, numbers[6 * u.i] AS keep, lasts[u.i] AS last, results[u.i] AS result, answers[u.i] AS answer
      FROM unnest(ids, tokens) WITH ORDINALITY u (id, token, i) JOIN @schema@.deferred d ON d.id = u.id AND d.token = u.token WHERE d.state = 1),
    x AS (UPDATE @schema@.deferred d SET state = o.state, due = CASE WHEN o.state = 0 THEN o.due ELSE d.due END, attempts = d.attempts + o.attempt,
        last = coalesce(o.last, d.last), cut = CASE WHEN o.last IS NULL THEN d.cut END, last_size = CASE WHEN o.last_size < 0 THEN d.last_size ELSE o.last_size END,
        result = coalesce(o.result, d.result), answer = coalesce(o.answer, d.answer), answer_size = CASE WHEN o.answer_size < 0 THEN d.answer_size ELSE o.answer_size END,
        size = d.size + CASE WHEN o.last_size < 0 THEN 0 ELSE o.last_size - d.last_size END + CASE WHEN o.answer_size < 0 THEN 0 ELSE o.answer_size - d.answer_size END
          - CASE WHEN o.state = 2 THEN d.request_size ELSE 0 END,
        request = CASE WHEN o.state = 2 THEN NULL ELSE d.request END, request_size = CASE WHEN o.state = 2 THEN 0 ELSE d.request_size END,
        forget = CASE WHEN o.state > 1 THEN instant + o.keep END, until = NULL, unsent = false
      FROM o WHERE d.id = o.id AND d.token = o.token AND d.state = 1
      RETURNING d.rule, d.line, d.client, 1, o.size, d.state, d.size)
    SELECT array_agg(ROW(x.*)::@schema@.deferred_change_1) INTO changes FROM x;
  PERFORM @schema@.deferred_apply_1(slot, instant, changes);
  stats := @schema@.deferred_stats_1();
END $$;

-- Changes entries: 0 cancels those that wait, 1 has dead ones wait again at the ends of their
-- lines, 2 forgets final ones, 3 forgets those that wait. Without ids it changes at most most of
-- a rule that are in a state. Returns how many it has changed, and how many there are. What is
-- cancelled has brief and whole instead of its request, as settled entries have results and
-- answers.
CREATE OR REPLACE FUNCTION @schema@.deferred_edit_2(
  clock int8, slot int8, action int8, keep int8, ids uuid[], which text, chosen int8, most int8, brief bytea, whole bytea, whole_size int8,
  OUT instant int8, OUT changed int8, OUT present int8, OUT stats @schema@.deferred_stat_1[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  names uuid[];
  rules text[];
  changes @schema@.deferred_change_1[];
BEGIN
  instant := @schema@.deferred_begin_1(clock);
  IF ids = '{}' THEN
    ids := array(SELECT d.id FROM @schema@.deferred d WHERE d.rule = which AND d.state = chosen ORDER BY d.seq LIMIT most);
  END IF;
  SELECT array_agg(o.line ORDER BY o.line), array_agg(o.rule ORDER BY o.line) INTO names, rules
    FROM (SELECT DISTINCT d.line, d.rule FROM @schema@.deferred d WHERE d.id = ANY (ids) AND d.state < 7) o;
  IF action = 1 THEN
    PERFORM @schema@.deferred_make_1(coalesce(names, '{}'), rules);
    UPDATE @schema@.lines l SET parallel = d.parallel FROM @schema@.deferred d WHERE d.id = ANY (ids) AND d.line = l.name AND l.entries = 0;
  ELSIF action <> 2 THEN
    PERFORM @schema@.deferred_lock_1(names);
  END IF;
  PERFORM FROM @schema@.deferred d WHERE d.id = ANY (ids) AND d.state > 1 ORDER BY d.id FOR UPDATE;
  SELECT count(*) INTO present FROM @schema@.deferred d WHERE d.id = ANY (ids) AND d.state < 7;
  IF action = 0 THEN
    WITH o AS MATERIALIZED (SELECT d.id, d.size FROM @schema@.deferred d WHERE d.id = ANY (ids) AND d.state = 0),
      x AS (UPDATE @schema@.deferred d SET state = 6, forget = instant + keep, request = NULL, request_size = 0, result = nullif(brief, ''), answer = nullif(whole, ''), answer_size = whole_size,
          size = d.size - d.request_size - d.answer_size + whole_size
        FROM o WHERE d.id = o.id AND d.state = 0 RETURNING d.rule, d.line, d.client, 0, o.size, d.state, d.size)
      SELECT array_agg(ROW(x.*)::@schema@.deferred_change_1) INTO changes FROM x;
  ELSIF action = 1 THEN
    WITH o AS MATERIALIZED (
        SELECT s.id, s.state, s.size, nextval('@schema@.deferred_seq') AS seq FROM (
          SELECT d.id, d.state, d.size FROM @schema@.deferred d WHERE d.id = ANY (ids) AND d.state BETWEEN 3 AND 5 AND d.request IS NOT NULL AND (d.scope IS NOT NULL OR d.print IS NULL) ORDER BY d.seq OFFSET 0) s),
      x AS (UPDATE @schema@.deferred d SET state = 0, seq = o.seq, accepted = instant, due = instant, expires = instant + d.expires - d.accepted, attempts = 0,
          result = NULL, answer = NULL, answer_size = 0, size = d.size - d.answer_size, forget = NULL, token = 0
        FROM o WHERE d.id = o.id RETURNING d.rule, d.line, d.client, o.state, o.size, d.state, d.size)
      SELECT array_agg(ROW(x.*)::@schema@.deferred_change_1) INTO changes FROM x;
  ELSE
    WITH x AS (DELETE FROM @schema@.deferred d WHERE d.id = ANY (ids) AND (CASE WHEN action = 2 THEN d.state BETWEEN 2 AND 6 ELSE d.state = 0 END)
        RETURNING d.rule, CASE WHEN d.state = 0 THEN d.line END AS line, d.client, d.state, d.size)
      SELECT array_agg(ROW(x.rule, x.line, x.client, x.state, x.size, NULL, NULL)::@schema@.deferred_change_1) INTO changes FROM x;
  END IF;
  changed := coalesce(cardinality(changes), 0);
  PERFORM @schema@.deferred_apply_1(slot, instant, changes);
  IF action = 1 THEN
    DELETE FROM @schema@.lines l WHERE l.name = ANY (names) AND l.entries = 0; -- they were made for nothing
  END IF;
  stats := @schema@.deferred_stats_1();
END $$;

-- As proxies of older versions call it.
CREATE OR REPLACE FUNCTION @schema@.deferred_edit_1(
  clock int8, slot int8, action int8, keep int8, ids uuid[], which text, chosen int8, most int8,
  OUT instant int8, OUT changed int8, OUT present int8, OUT stats @schema@.deferred_stat_1[])
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT * FROM @schema@.deferred_edit_2(clock, slot, action, keep, ids, which, chosen, most, '', '', 0)
$$;

-- Forgets the oldest final entries of clients whose final entries have more bytes than bound, but
-- not the last one of a client; at most 256 of each of 16 clients. Returns how many. Without such
-- clients it reads one page of an index.
CREATE OR REPLACE FUNCTION @schema@.deferred_evict_1(clock int8, slot int8, bound int8,
  OUT instant int8, OUT evicted int8, OUT stats @schema@.deferred_stat_1[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  changes @schema@.deferred_change_1[];
BEGIN
  instant := @schema@.deferred_begin_1(clock);
  WITH o AS MATERIALIZED (
      SELECT x.id FROM (
        SELECT c.name, c.kept_entries, c.kept_bytes - bound AS excess FROM @schema@.deferred_clients c
        WHERE c.kept_bytes > bound AND c.kept_entries > 1 ORDER BY c.kept_bytes DESC LIMIT 16) k
      CROSS JOIN LATERAL (
        SELECT w.id, sum(w.size) OVER (ORDER BY w.seq) - w.size AS before FROM (
          SELECT d.id, d.seq, d.size FROM @schema@.deferred d WHERE coalesce(d.client, '00000000-0000-0000-0000-000000000000') = k.name AND d.state BETWEEN 2 AND 6
          ORDER BY d.seq LIMIT least(256, k.kept_entries - 1)) w) x
      WHERE x.before < k.excess),
    l AS MATERIALIZED (SELECT d.id FROM o JOIN @schema@.deferred d ON d.id = o.id WHERE d.state BETWEEN 2 AND 6 ORDER BY d.id FOR UPDATE OF d SKIP LOCKED),
    x AS (DELETE FROM @schema@.deferred d USING l WHERE d.id = l.id RETURNING d.rule, d.client, d.state, d.size)
    SELECT array_agg(ROW(x.rule, NULL, x.client, x.state, x.size, NULL, NULL)::@schema@.deferred_change_1) INTO changes FROM x;
  evicted := coalesce(cardinality(changes), 0);
  IF evicted > 0 THEN
    PERFORM @schema@.deferred_apply_1(slot, NULL, changes);
    stats := @schema@.deferred_stats_1();
  END IF;
END $$;
