-- Gives a key that many permits more than it has now under every kind of limits, at most
-- until it is as new; see limit.State.Add. The names of the key begin with base, and no
-- other names do. edits is the document whose version counts edits. What is kept lives as
-- long as before, which is longer than it needs then. Returns under how many kinds the
-- key could use some, and -1, with nothing changed, when a name holds something else.
CREATE OR REPLACE FUNCTION @schema@.add_1(clock int8, patience int4, lock int4, base bytea, amount int8, edits text) RETURNS int4
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
  now int8;
  algorithm int8;
  number int8;
  less int8;
  part int8;
  gain int8;
  before0 int8;
  since int8;
  k @schema@.keys;
  s @schema@.settled_1;
  changed int4 := 0;
BEGIN
  PERFORM @schema@.lock_1(patience, ARRAY[lock]);
  now := @schema@.now_1(clock);
  IF EXISTS (SELECT FROM @schema@.keys t WHERE t.name >= base AND t.name < base || '\xff'::bytea AND t.expires > now AND t.tag >> 56 NOT BETWEEN 1 AND 6) THEN
    RETURN -1;
  END IF;
  FOR k IN SELECT * FROM @schema@.keys t WHERE t.name >= base AND t.name < base || '\xff'::bytea AND t.expires > now LOOP
    algorithm := k.tag >> 56;
    number := k.tag & 72057594037927935;
    IF algorithm = 6 THEN
      CONTINUE;
    ELSIF algorithm = 4 THEN
      k.at := greatest(now, k.at);
      SELECT e.before INTO before0 FROM @schema@.log e WHERE e.name = k.name AND e.at > k.at - number ORDER BY e.at LIMIT 1;
      CONTINUE WHEN NOT FOUND OR amount = 0;
      IF amount >= k.a - before0 THEN
        DELETE FROM @schema@.log e WHERE e.name = k.name;
        k.a := 0;
      ELSE -- the oldest leave
        SELECT max(e.at) INTO since FROM @schema@.log e WHERE e.name = k.name AND e.at > k.at - number AND e.before <= before0 + amount;
        DELETE FROM @schema@.log e WHERE e.name = k.name AND e.at < since;
        UPDATE @schema@.log e SET before = before0 + amount WHERE e.name = k.name AND e.at = since;
      END IF;
    ELSIF algorithm = 3 OR algorithm = 5 THEN
      part := number;
      gain := k.b;
      IF algorithm = 3 THEN
        part := 1000000000000 / gcd(number, 1000000000000);
        gain := number / gcd(number, 1000000000000);
      END IF;
      k.a := @schema@.drained_1(k.a, greatest(now, k.at) - k.at, gain);
      k.at := greatest(now, k.at);
      CONTINUE WHEN k.a = 0 OR amount = 0;
      k.a := CASE WHEN amount > k.a / part THEN 0 ELSE k.a - amount * part END;
    ELSE
      s := @schema@.settle_1(algorithm, 0, number, 0, now, k);
      less := least(s.a, amount);
      k.a := s.a - less;
      k.b := s.b;
      k.at := s.at;
      less := amount - less;
      part := number / s.y - (s.at - s.x) / s.y; -- units of the window that are left
      IF algorithm = 2 AND less > 0 AND s.b * part / (number / s.y) > 0 THEN
        -- of the window before as few are taken away as make it weigh so much less
        k.b := ((greatest(0, s.b * part / (number / s.y) - less) + 1) * (number / s.y) - 1) / part;
      ELSE
        CONTINUE WHEN s.a = k.a;
      END IF;
    END IF;
    UPDATE @schema@.keys t SET at = k.at, a = k.a, b = k.b WHERE t.name = k.name;
    changed := changed + 1;
  END LOOP;
  PERFORM @schema@.edited_1(edits);
  RETURN changed;
END $$;

-- Makes a key as one never seen under all kinds of limits. Returns how many there were.
CREATE OR REPLACE FUNCTION @schema@.forget_1(clock int8, patience int4, lock int4, base bytea, edits text) RETURNS int4
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
  forgotten int4;
BEGIN
  PERFORM @schema@.lock_1(patience, ARRAY[lock]);
  DELETE FROM @schema@.keys t WHERE t.name >= base AND t.name < base || '\xff'::bytea AND t.expires > @schema@.now_1(clock);
  GET DIAGNOSTICS forgotten = ROW_COUNT;
  DELETE FROM @schema@.log e WHERE e.name >= base AND e.name < base || '\xff'::bytea;
  PERFORM @schema@.edited_1(edits);
  RETURN forgotten;
END $$;

-- Counts an edit of a key.
CREATE OR REPLACE FUNCTION @schema@.edited_1(edits text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO @schema@.documents AS t VALUES (edits, 1, '') ON CONFLICT ON CONSTRAINT documents_pkey DO UPDATE SET version = t.version + 1
$$;

-- For each document a text that is another when the document is, in the order of names.
CREATE OR REPLACE FUNCTION @schema@.marks_1(names text[]) RETURNS SETOF text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(d.version || ' ' || d.xmin::text, '') FROM unnest(names) WITH ORDINALITY AS n (name, place) LEFT JOIN @schema@.documents d ON d.name = n.name ORDER BY n.place
$$;

-- A document; no row if it was never written.
CREATE OR REPLACE FUNCTION @schema@.document_1(which text, OUT version int8, OUT body bytea) RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT d.version, d.body FROM @schema@.documents d WHERE d.name = which
$$;

-- Writes a document if its version still is the one that the writer knows, 0 for one
-- never written. Returns the version that was written, or 0.
CREATE OR REPLACE FUNCTION @schema@.write_1(which text, known int8, content bytea) RETURNS int8
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF known = 0 THEN
    INSERT INTO @schema@.documents VALUES (which, 1, content) ON CONFLICT DO NOTHING;
  ELSE
    UPDATE @schema@.documents d SET version = d.version + 1, body = content WHERE d.name = which AND d.version = known;
  END IF;
  RETURN CASE WHEN FOUND THEN known + 1 ELSE 0 END;
END $$;

-- Takes a lease for so many ms, keeps it, or gives it back (0 ms). Returns whether who
-- asks, a word that nobody else has, holds it afterwards.
CREATE OR REPLACE FUNCTION @schema@.lease_1(which text, who text, ms int8) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF ms = 0 THEN
    DELETE FROM @schema@.leases l WHERE l.name = which AND l.owner = who;
    RETURN false;
  END IF;
  INSERT INTO @schema@.leases AS l VALUES (which, who, clock_timestamp() + ms * interval '1 ms')
    ON CONFLICT ON CONSTRAINT leases_pkey DO UPDATE SET owner = excluded.owner, until = excluded.until
    WHERE l.owner = excluded.owner OR l.until <= clock_timestamp();
  RETURN FOUND;
END $$;

-- Fails unless limits can be decided and kept here, also for new keys: there must be room
-- for more rows than fit on a page.
CREATE OR REPLACE FUNCTION @schema@.probe_1(which bytea) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO @schema@.keys SELECT which || n::text::bytea, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(1, 80) n ON CONFLICT DO NOTHING;
  DELETE FROM @schema@.keys WHERE name > which AND name <= which || '9999'::bytea;
$$;

-- Removes what has expired in so many blocks of keys or log, from one on; what is locked
-- is left. Returns how many rows it removed, and the block to go on with: 0 at the end. Until
-- version 6 it removed rows of any table that it was told, with the rights of its owner.
CREATE OR REPLACE FUNCTION @schema@.sweep_1(which text, start int8, blocks int8, OUT removed int8, OUT next int8)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  now int8 := @schema@.now_1(0);
  first tid := format('(%s,0)', start);
  behind tid := format('(%s,0)', start + blocks);
  size int8;
BEGIN
  CASE which
  WHEN 'keys' THEN
    DELETE FROM @schema@.keys t WHERE t.expires <= now AND t.ctid = ANY (ARRAY(
      SELECT u.ctid FROM @schema@.keys u WHERE u.ctid >= first AND u.ctid < behind AND u.expires <= now FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    size := pg_relation_size('@schema@.keys'::regclass);
  WHEN 'log' THEN
    DELETE FROM @schema@.log t WHERE t.expires <= now AND t.ctid = ANY (ARRAY(
      SELECT u.ctid FROM @schema@.log u WHERE u.ctid >= first AND u.ctid < behind AND u.expires <= now FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    size := pg_relation_size('@schema@.log'::regclass);
  ELSE
    RAISE EXCEPTION 'rows are removed from keys and log, and not from %', which;
  END CASE;
  next := start + blocks;
  IF next * current_setting('block_size')::int8 >= size THEN next := 0; END IF;
END $$;

-- A text that changes when keys may have been lost: a random number in a row of their table, which
-- is lost with them, and the timeline, which changes when a standby is promoted or a backup is
-- restored. The timeline is empty where the server does not tell it. A row expires half a
-- day to a day after its last use.
CREATE OR REPLACE FUNCTION @schema@.epoch_9(which bytea) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
  day constant int8 := 86400000000;
  now int8 := @schema@.now_1(0);
  number int8;
  until int8;
  timeline text;
BEGIN
  SELECT t.at, t.expires INTO number, until FROM @schema@.keys t WHERE t.name = which;
  IF NOT FOUND THEN
    INSERT INTO @schema@.keys VALUES (which, 0, (random() * 9007199254740991)::int8, 0, 0, 0, 0, now + day) ON CONFLICT DO NOTHING;
    SELECT t.at INTO number FROM @schema@.keys t WHERE t.name = which;
  ELSIF until NOT BETWEEN now + day / 2 AND now + 2 * day THEN
    UPDATE @schema@.keys t SET expires = now + day WHERE t.name = which AND t.expires = until;
  END IF;
  BEGIN
    timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
  EXCEPTION WHEN OTHERS THEN
    timeline := '';
  END;
  RETURN coalesce(number::text, '') || ' ' || timeline;
END $$;

-- The version of the schema, of which a program must know all.
CREATE OR REPLACE FUNCTION @schema@.version() RETURNS int4 LANGUAGE sql IMMUTABLE AS 'SELECT 10';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @schema@ FROM PUBLIC;

-- Roles that may decide keep this right when functions are added.
DO $do$
DECLARE
  who text;
BEGIN
  FOR who IN SELECT DISTINCT a.grantee::regrole::text FROM pg_proc p, aclexplode(p.proacl) a
      WHERE p.pronamespace = to_regnamespace('@schema@') AND p.proname = 'take_1' AND a.grantee NOT IN (0, p.proowner) AND a.privilege_type = 'EXECUTE' LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION @schema@.take_one_1, @schema@.take_many_1, @schema@.epoch_9 TO %s', who);
  END LOOP;
END $do$;
