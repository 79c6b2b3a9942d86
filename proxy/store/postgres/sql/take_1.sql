
-- A key as it would be if the clock had shown now at its latest instant, if it is further ahead
-- than a key takes to recover that has taken all it may, or with debt than what is ahead of it takes
-- to come back: see limit.State.back. most are the permits at once, with overshoot. Of a log that
-- changes the entries.
CREATE OR REPLACE FUNCTION @schema@.back_8(now int8, algorithm int8, most int8, number int8, gain int8, grace int8, k @schema@.keys) RETURNS @schema@.keys
LANGUAGE plpgsql AS $$
DECLARE
  ahead bigint := k.at - now;
  recovery bigint := number;
  common bigint := 1;
BEGIN
  IF algorithm = 2 THEN
    recovery := 2 * number;
  ELSIF algorithm = 5 THEN
    recovery := greatest(most * number / gain, k.a / k.b) + 1;
  ELSIF algorithm = 3 OR algorithm = 6 THEN
    common := gcd(number, 1000000000000);
    recovery := (most + algorithm / 6) * (1000000000000 / common) / (number / common);
    common := k.tag & 72057594037927935; -- the rate at which it was kept
    recovery := greatest(recovery, k.a / (common / gcd(common, 1000000000000))) + 1;
  END IF;
  IF ahead <= recovery + grace THEN
    RETURN k;
  END IF;
  IF algorithm = 4 THEN
    k.a := k.a - coalesce((SELECT e.before FROM @schema@.log e WHERE e.name = k.name AND e.at > k.at - number ORDER BY e.at LIMIT 1), k.a);
    DELETE FROM @schema@.log e WHERE e.name = k.name;
    INSERT INTO @schema@.log SELECT k.name, now, 0, now + number + @schema@.margin_1() WHERE k.a > 0;
  ELSIF algorithm = 3 AND k.b > 0 THEN
    k.b := k.b - ahead;
  END IF;
  k.at := now;
  IF k.began > 0 THEN
    k.began := k.began - ahead;
    k.under := k.under - ahead;
  END IF;
  RETURN k;
END $$;

-- How many of n requests go by one counter, of which so many parts are free.
CREATE OR REPLACE FUNCTION @schema@.room_1(n int8, most int8, cost int8, parts int8, free int8, reserve int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN cost = 0 THEN n
    WHEN cost > most - reserve OR free - reserve * parts < cost * parts THEN 0
    ELSE least(n, (free - reserve * parts) / (cost * parts)) END
$$;

-- How many of n requests find a slot soon enough; ahead are the parts before them.
CREATE OR REPLACE FUNCTION @schema@.patient_1(n int8, delay int8, cost int8, parts int8, gain int8, ahead int8) RETURNS int8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  most bigint := 9007199254740992;
BEGIN
  IF delay = 0 OR cost = 0 THEN RETURN n; END IF;
  IF delay <= most / gain THEN most := delay * gain; END IF;
  IF ahead > most THEN RETURN 0; END IF;
  RETURN least(n, (most - ahead) / (cost * parts) + 1);
END $$;

-- The entries of a log, as pairs of an instant and the permits before it, that a caller
-- needs in order to know when each of some numbers of permits, those wanted, has left
-- the window: used are in it, admitted after cut, and base before them.
CREATE OR REPLACE FUNCTION @schema@.told_1(key bytea, cut int8, base int8, used int8, wanted int8[]) RETURNS int8[]
LANGUAGE plpgsql AS $$
DECLARE
  pairs bigint[] := '{}';
  told bigint := 0;
  through bigint;
  permits bigint;
  since bigint := cut;
  next bigint;
  this bigint;
BEGIN
  FOR permits IN SELECT v FROM unnest(wanted) v WHERE v > 0 AND v <= used ORDER BY v LOOP
    CONTINUE WHEN permits <= told;
    SELECT e.at, e.before - base INTO next, through FROM @schema@.log e
      WHERE e.name = key AND e.at > since AND e.before >= base + permits ORDER BY e.at LIMIT 1;
    IF NOT FOUND THEN
      next := 9223372036854775807;
      through := used;
    END IF;
    SELECT e.at INTO this FROM @schema@.log e WHERE e.name = key AND e.at > cut AND e.at < next ORDER BY e.at DESC LIMIT 1;
    pairs := pairs || ARRAY[this, told];
    told := through;
    since := this;
  END LOOP;
  IF told < used THEN
    SELECT e.at INTO this FROM @schema@.log e WHERE e.name = key AND e.at > cut ORDER BY e.at DESC LIMIT 1;
    pairs := pairs || ARRAY[this, told];
  END IF;
  RETURN pairs;
END $$;

-- Decides groups of counters, each group together. n requests wait for a group: as many
-- go as every counter of it has room for, the first ones, and are charged to every
-- counter. It answers as limit.Take does about each request alone.
--
--   clock     the instant; 0: the server's clock, read when all locks are held
--   patience  how many ms to wait for each lock, of a key or a row
--   locks     the numbers of the locks of all keys, ascending
--   names     the keys, each once
--   gives     what is given back before anything is decided, as limit.Limit.Release does:
--             for each the index of the key in names, then permits (the capacity, the limit
--             of gcra), number, cost, the instant of the charge (of a queue the slot) and
--             grace
--   groups    for each group the number of its counters and n, where 0 only reads; then
--             for each counter the index of the key in names, and algorithm, permits (the
--             capacity, the burst of gcra), number (the window, or the rate), cost, gain
--             (the limit of gcra), reserve, longest delay, overshoot and grace. If 16 is added to
--             the number of counters, a debt for each of them follows: where that is not 0, all n
--             requests are charged, whether they go or not, until so many permits are taken in all,
--             and looks go when a request of cost 1 would
--
-- Returns the instant, for how many locks it had to wait, how many of the gives had an effect,
-- and for each group how many go, or -1 when a key of it holds something else.
-- states has, for each counter in turn, tag, at, a, b, began and under that its key had
-- before, as they were kept or brought to the instant, all 0 for a new one. entries has
-- the part of logs that the caller needs: the number of the counter in states, an instant,
-- and the permits before it.
--
-- A refusal writes nothing, unless a key counts from now on that was far ahead.
CREATE OR REPLACE FUNCTION @schema@.take_1(
  clock int8, patience int4, locks int4[], names bytea[], gives int8[], groups int8[],
  OUT instant int8, OUT waits int4, OUT given int4, OUT granted int8[], OUT states int8[], OUT entries int8[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_indexscan = on AS $$
DECLARE
  pos int4 := 1;      -- in groups
  told int4 := 0;     -- counters in states
  first int4;         -- of the group's counters in groups
  size int4;          -- of the group
  n int8;
  going int8;
  charge int8;
  free int8;
  pair int4;
  pairs int8[];
  wanted int8[];
  i int4;
  c int4;
  index int4;
  many bool := cardinality(names) > 1;
  kept @schema@.keys[];        -- the keys, as they are after what was decided; of a single one it is k
  changed bool[] := array_fill(false, ARRAY[cardinality(names)]);
  since int8;
  k @schema@.keys;
  held @schema@.settled_1[];   -- the counters of a group; of a single one it is s
  s @schema@.settled_1;
  -- a counter
  algorithm int8;
  permits int8;
  number int8;
  cost int8;
  overshoot int8;
  grace int8;
  late bool;          -- some counters of the group have a debt
  debt int8;
  need int8;          -- permits for a request, or for all looks together
  looks int8;
  parts int8;
BEGIN
  given := 0;
  granted := '{}';
  states := '{}';
  entries := '{}';
  waits := @schema@.lock_1(patience, locks);
  instant := @schema@.now_1(clock);

  FOR index IN 1..cardinality(names) LOOP
    SELECT * INTO k FROM @schema@.keys t WHERE t.name = names[index] AND t.expires > instant;
    k.name := names[index];
    IF many THEN kept[index] := k; END IF;
  END LOOP;

  FOR i IN 0..cardinality(gives) / 6 - 1 LOOP
    index := gives[6 * i + 1];
    IF many THEN k := kept[index]; END IF;
    CONTINUE WHEN k.tag IS NULL OR k.tag >> 56 NOT IN (1, 2, 3, 5, 6);
    algorithm := k.tag >> 56;
    permits := gives[6 * i + 2];
    number := gives[6 * i + 3];
    s := @schema@.settle_1(algorithm, permits, number, permits, instant, k);
    charge := gives[6 * i + 4];
    since := gives[6 * i + 5];
    CONTINUE WHEN s.adopted OR charge < 1 OR algorithm <> 6 AND since > s.at;
    free := 0; -- of the window before
    IF algorithm = 6 THEN
      charge := charge * s.x;
      CONTINUE WHEN charge >= s.a OR s.at + @schema@.micros_1(s.a - charge, s.y) <> since;
    ELSIF algorithm >= 3 THEN
      CONTINUE WHEN algorithm = 3 AND s.b > 0; -- the rate has changed
      charge := least(s.a, @schema@.drained_1(charge * s.x, s.at - since, s.y));
    ELSIF since >= s.x THEN
      charge := least(s.a, charge);
    ELSE
      IF since >= s.x - number AND s.a + s.free < permits THEN free := least(s.b, charge); END IF; -- sliding: it still weighs
      charge := 0;
    END IF;
    CONTINUE WHEN charge = 0 AND free = 0;
    k.a := s.a - charge;
    k.b := s.b - free;
    k.at := s.at;
    k.expires := greatest(@schema@.new_at_1(algorithm, number, s.at, k.a, k.b, s.x, s.y), CASE WHEN k.began > 0 THEN k.under + gives[6 * i + 6] END, instant) + @schema@.margin_1();
    IF many THEN kept[index] := k; END IF;
    changed[index] := true;
    given := given + 1;
  END LOOP;

  WHILE pos < cardinality(groups) LOOP
    size := groups[pos] & 15;
    late := groups[pos] > 15;
    debt := 0;
    n := groups[pos + 1];
    going := n;
    first := pos + 2;
    FOR i IN 1..size LOOP
      c := first + 10 * (i - 1);
      index := groups[c];
      algorithm := groups[c + 1];
      permits := groups[c + 2];
      number := groups[c + 3];
      cost := groups[c + 4];
      overshoot := groups[c + 8];
      need := cost;
      looks := 0;
      IF late THEN
        debt := groups[first + 10 * size + i - 1];
        IF debt > 0 AND cost = 0 AND going > 0 THEN
          need := 1;
          looks := going;
          going := 1;
        END IF;
      END IF;
      IF many THEN k := kept[index]; END IF;
      IF k.tag >> 56 <> algorithm OR algorithm NOT IN (3, 6) AND k.tag & 72057594037927935 <> number THEN
        going := -1;
        EXIT;
      END IF;
      IF k.at > instant THEN
        since := k.at;
        k := @schema@.back_8(instant, algorithm, permits + overshoot, number, groups[c + 5], groups[c + 9], k);
        changed[index] := changed[index] OR k.at < since AND (n > 0 OR algorithm = 4);
        IF many THEN kept[index] := k; END IF;
      END IF;
      IF algorithm = 4 THEN
        s := NULL;
        s.at := greatest(instant, k.at);
        s.adopted := false;
        s.base := 0;
        s.a := 0;
        s.b := 0; -- permits in the window
        s.began := 0;
        s.under := 0;
        s.x := 1;
        IF k.tag IS NOT NULL THEN
          SELECT e.before INTO s.base FROM @schema@.log e WHERE e.name = k.name AND e.at > s.at - number ORDER BY e.at LIMIT 1;
          IF FOUND THEN
            s.a := k.a;
            s.b := k.a - s.base;
          ELSE
            s.base := 0;
          END IF;
        END IF;
        s.free := permits - s.b;
      ELSE
        s := @schema@.settle_1(algorithm, permits, number, groups[c + 5], instant, k);
      END IF;
      charge := CASE WHEN algorithm = 3 OR algorithm > 4 THEN s.x ELSE 1 END; -- parts of a permit
      IF overshoot = 0 THEN
        going := @schema@.room_1(going, permits, need, charge, s.free, groups[c + 6]);
      ELSE
        grace := groups[c + 9];
        IF k.began > 0 AND s.at < k.under + grace THEN
          s.began := k.began;
          s.under := k.under;
        END IF;
        free := CASE WHEN s.began = 0 OR s.at < s.began + grace THEN overshoot ELSE 0 END; -- permits beyond the limit
        going := @schema@.room_1(going, permits + free, need, charge, s.free + free * charge, groups[c + 6]);
      END IF;
      IF algorithm = 6 AND going > 0 THEN going := @schema@.patient_1(going, groups[c + 7], need, s.x, s.y, s.a); END IF;
      IF looks > 0 AND going > 0 THEN going := looks; END IF;
      IF size > 1 THEN held[i] := s; END IF;
    END LOOP;

    -- Nothing was written of this group so far, and nothing fails from here on.
    FOR i IN 1..size LOOP
      IF size > 1 THEN
        c := first + 10 * (i - 1);
        index := groups[c];
        k := kept[index];
        s := held[i];
        algorithm := groups[c + 1];
        permits := groups[c + 2];
        number := groups[c + 3];
        cost := groups[c + 4];
        overshoot := groups[c + 8];
        IF late THEN debt := groups[first + 10 * size + i - 1]; END IF;
      END IF;
      told := told + 6;
      states := states || CASE WHEN k.tag IS NULL THEN '{0,0,0,0,0,0}' ELSE ARRAY[k.tag, k.at, k.a, k.b, k.began, k.under] END;
      CONTINUE WHEN going < 0;
      parts := CASE WHEN algorithm = 3 OR algorithm > 4 THEN s.x ELSE 1 END;
      charge := going * cost * parts;
      IF debt > 0 AND n > 0 THEN
        free := greatest(0, s.free + (debt - permits) * parts);
        charge := CASE WHEN cost > free / parts / n THEN free ELSE n * cost * parts END;
      END IF;
      IF algorithm = 4 THEN
        IF k.tag IS NOT NULL THEN
          states[told - 3] := s.b; -- the entries are told as of a log with no others
          wanted := '{}';
          free := s.b + charge - permits + cost + groups[c + 6];
          IF going < n THEN wanted := wanted || free; END IF;
          IF overshoot > 0 THEN
            wanted := wanted || (free - overshoot) || ARRAY(SELECT s.b + j * cost - permits FROM generate_series(1, going) j);
          END IF;
          IF debt > 0 THEN -- any of the requests may be the last one that the caller tells of
            need := greatest(cost, 1) + groups[c + 6];
            wanted := ARRAY(SELECT s.b + least(j * cost, charge) - permits + need - less FROM unnest(ARRAY[0, overshoot, need]) less,
              generate_series(1, CASE WHEN cost = 0 THEN 1 ELSE least(n, (permits + overshoot) / cost + 1) END) j);
          END IF;
          pairs := @schema@.told_1(k.name, s.at - number, s.base, s.b, wanted);
          FOR pair IN 1..cardinality(pairs) / 2 LOOP
            entries := entries || ARRAY[told / 6, pairs[2 * pair - 1], pairs[2 * pair]];
          END LOOP;
        END IF;
        CONTINUE WHEN charge = 0;
        free := s.b + charge - permits; -- exceeded by
        IF overshoot > 0 AND free > 0 THEN
          IF s.began = 0 THEN s.began := s.at; END IF;
          s.under := s.at + number;
          IF free <= s.b THEN
            pairs := @schema@.told_1(k.name, s.at - number, s.base, s.b, ARRAY[free]);
            s.under := pairs[1] + number;
          END IF;
        END IF;
        DELETE FROM @schema@.log e WHERE e.name = k.name AND e.at <= s.at - number;
        INSERT INTO @schema@.log VALUES (k.name, s.at, s.a, s.at + number + @schema@.margin_1()) ON CONFLICT DO NOTHING;
        s.a := s.a + charge;
        s.b := 0;
      ELSE
        CONTINUE WHEN charge = 0 AND (n = 0 OR NOT s.adopted);
        IF charge > 0 THEN
          s.a := s.a + charge;
          IF algorithm = 3 AND s.b > 0 THEN s.b := 0; END IF;
          IF overshoot > 0 AND s.free < charge THEN
            IF s.began = 0 THEN s.began := s.at; END IF;
            s.free := s.free - charge;
            s.under := @schema@.within_1(algorithm, permits, number, s);
          END IF;
        END IF;
      END IF;
      k := (k.name, algorithm << 56 | number, s.at, s.a, s.b, s.began, s.under, @schema@.margin_1() + greatest(instant,
        CASE WHEN algorithm = 4 THEN s.at + number ELSE @schema@.new_at_1(algorithm, number, s.at, s.a, s.b, s.x, s.y) END,
        CASE WHEN s.began > 0 THEN s.under + groups[c + 9] END))::@schema@.keys;
      IF many THEN kept[index] := k; END IF;
      changed[index] := true;
    END LOOP;
    granted := granted || going;
    pos := first + 10 * size + CASE WHEN late THEN size ELSE 0 END;
  END LOOP;

  FOR index IN 1..cardinality(names) LOOP
    CONTINUE WHEN NOT changed[index];
    IF many THEN k := kept[index]; END IF;
    INSERT INTO @schema@.keys AS t VALUES (k.name, k.tag, k.at, k.a, k.b, k.began, k.under, k.expires)
      ON CONFLICT ON CONSTRAINT keys_pkey DO UPDATE SET tag = excluded.tag, at = excluded.at, a = excluded.a, b = excluded.b,
        began = excluded.began, under = excluded.under, expires = excluded.expires;
  END LOOP;
END $$;
