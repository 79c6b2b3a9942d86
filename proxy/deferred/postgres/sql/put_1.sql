-- Stores entries, in order.
--
--   mode     as deferred_open_1 has told
--   limits   most entries in lines and bytes of all; most of both of a line or a client
--   names    the lines, each once, with their rules; shared: 1 if a line has no share of its own
--   clients  the clients, each once
--   ids      the entries; scopes and prints are null without a key
--   numbers  for each its line and its client as indexes (0: none), when it was accepted, expires
--            and is due, its size, that of its request, most entries of its line (0: any),
--            how many of the line may be claimed at a time, and 1 if the bounds on all do not hold
--
-- Returns for each what came of it: the outcomes and bounds of package deferred.
CREATE OR REPLACE FUNCTION @schema@.deferred_put_1(
  clock int8, slot int8, mode bytea, limits int8[], names uuid[], rules text[], shared int8[], clients uuid[],
  ids uuid[], scopes uuid[], prints uuid[], numbers int8[], abouts bytea[], requests bytea[],
  OUT instant int8, OUT told @schema@.deferred_told_1[], OUT stats @schema@.deferred_stat_1[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  all_entries int8;
  all_bytes int8;
  line_entries int8[];
  line_bytes int8[];
  line_due int8[];
  client_entries int8[];
  client_bytes int8[];
  taken int8[] := '{}';
  size int8;
  l int8;
  c int8;
  k int8;
  bound int8;
  replaced uuid;
  o record;
  changes @schema@.deferred_change_1[];
BEGIN
  instant := @schema@.deferred_begin_1(clock);
  PERFORM @schema@.deferred_make_1(names, rules);
  SELECT coalesce(sum(t.entries) FILTER (WHERE t.state = 0), 0), coalesce(sum(t.bytes), 0) INTO all_entries, all_bytes FROM @schema@.deferred_totals t;
  SELECT array_agg(x.entries ORDER BY u.i), array_agg(x.bytes ORDER BY u.i), array_agg(x.due ORDER BY u.i) INTO line_entries, line_bytes, line_due
    FROM unnest(names) WITH ORDINALITY u (name, i) JOIN @schema@.lines x ON x.name = u.name;
  SELECT array_agg(coalesce(x.entries, 0) ORDER BY u.i), array_agg(coalesce(x.bytes + x.kept_bytes, 0) ORDER BY u.i) INTO client_entries, client_bytes
    FROM unnest(clients) WITH ORDINALITY u (name, i) LEFT JOIN @schema@.deferred_clients x ON x.name = u.name;
  FOR i IN 1 .. cardinality(ids) LOOP
    k := 10 * (i - 1);
    l := numbers[k + 1];
    c := numbers[k + 2];
    size := numbers[k + 6];
    replaced := NULL;
    IF scopes[i] IS NOT NULL THEN
      SELECT d.id, d.state, d.line, d.seq, d.due, d.expires, d.print, d.attempts, d.last, d.cut INTO o FROM @schema@.deferred d WHERE d.scope = scopes[i];
      IF NOT FOUND THEN
        NULL;
      ELSIF o.state IN (4, 6) AND o.attempts = 0 AND o.last IS NULL AND o.cut IS NULL THEN -- it is over and was never sent
        replaced := o.id;
      ELSE
        told := told || ROW(CASE WHEN o.print = prints[i] THEN 1 ELSE 2 END, 0, o.id, o.state,
          CASE WHEN o.state <= 1 THEN @schema@.deferred_place_1(o.line, o.seq) ELSE 0 END, o.due, o.expires)::@schema@.deferred_told_1;
        CONTINUE;
      END IF;
    END IF;
    bound := CASE
      WHEN numbers[k + 10] = 0 AND all_entries >= limits[1] THEN 1
      WHEN numbers[k + 10] = 0 AND all_bytes + size > limits[2] THEN 2
      WHEN c > 0 AND client_entries[c] > 0 AND (client_entries[c] >= limits[3] OR client_bytes[c] + size > limits[4]) THEN 4
      WHEN numbers[k + 8] > 0 AND line_entries[l] >= numbers[k + 8] THEN 3
      WHEN shared[l] = 0 AND line_entries[l] > 0 AND (line_entries[l] >= limits[3] OR line_bytes[l] + size > limits[4]) THEN 4
      ELSE 0 END;
    IF bound > 0 THEN
      told := told || ROW(4, bound, ids[i], 0, 0, line_due[l], 0)::@schema@.deferred_told_1;
      CONTINUE;
    END IF;
    IF replaced IS NOT NULL THEN
      UPDATE @schema@.deferred d SET scope = NULL WHERE d.id = replaced AND d.state = o.state;
    END IF;
    taken := taken || i::int8;
    all_entries := all_entries + 1;
    all_bytes := all_bytes + size;
    line_entries[l] := line_entries[l] + 1;
    line_bytes[l] := line_bytes[l] + size;
    IF c > 0 THEN
      client_entries[c] := client_entries[c] + 1;
      client_bytes[c] := client_bytes[c] + size;
    END IF;
    told := told || ROW(0, 0, ids[i], 0, line_entries[l], numbers[k + 5], numbers[k + 4])::@schema@.deferred_told_1;
  END LOOP;
  INSERT INTO @schema@.deferred (id, line, rule, client, seq, state, accepted, expires, due, scope, print, size, request_size, about, request, parallel)
    SELECT ids[t.i], names[numbers[10 * t.i - 9]], rules[numbers[10 * t.i - 9]], clients[numbers[10 * t.i - 8]], nextval('@schema@.deferred_seq'), 0,
      numbers[10 * t.i - 7], numbers[10 * t.i - 6], numbers[10 * t.i - 5], scopes[t.i], prints[t.i], numbers[10 * t.i - 4], numbers[10 * t.i - 3], abouts[t.i], requests[t.i], numbers[10 * t.i - 1]
    FROM unnest(taken) WITH ORDINALITY t (i, n) ORDER BY t.n;
  IF NOT EXISTS (SELECT FROM @schema@.deferred_about a WHERE a.name = 'mode' AND a.value = mode) THEN -- what changes it waits for the insertion
    RAISE EXCEPTION 'the queue is not encrypted with this key' USING ERRCODE = 'WR002';
  END IF;
  UPDATE @schema@.lines x SET parallel = p.parallel FROM (
      SELECT DISTINCT ON (numbers[10 * t.i - 9]) names[numbers[10 * t.i - 9]] AS name, numbers[10 * t.i - 1] AS parallel FROM unnest(taken) t (i) ORDER BY numbers[10 * t.i - 9], t.i DESC) p
    WHERE x.name = p.name AND x.parallel <> p.parallel;
  SELECT array_agg(ROW(rules[numbers[10 * t.i - 9]], names[numbers[10 * t.i - 9]], clients[numbers[10 * t.i - 8]], NULL, NULL, 0, numbers[10 * t.i - 4])::@schema@.deferred_change_1)
    INTO changes FROM unnest(taken) t (i);
  PERFORM @schema@.deferred_apply_1(slot, NULL, changes);
  IF cardinality(taken) < cardinality(ids) THEN
    DELETE FROM @schema@.lines x WHERE x.name = ANY (names) AND x.entries = 0;
  END IF;
  stats := @schema@.deferred_stats_1();
END $$;

-- Has entries not be stored any more: those that are stored by a statement of which nobody
-- knows the end fail from now on, and it waits for what is storing one of them just now. Returns
-- those that are stored already.
CREATE OR REPLACE FUNCTION @schema@.deferred_bar_1(clock int8, keep int8, ids uuid[], OUT instant int8, OUT stored int8)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
  instant := @schema@.deferred_begin_1(clock);
  INSERT INTO @schema@.deferred (id, line, rule, seq, state, accepted, expires, due, size, forget)
    SELECT u.id, u.id, '', 0, 7, 0, 0, 0, 0, instant + keep FROM unnest(ids) u (id) ORDER BY u.id ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS stored = ROW_COUNT;
  stored := cardinality(ids) - stored;
END $$;
