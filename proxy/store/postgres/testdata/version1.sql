-- Version 1 of the schema: tables and the functions by which proxies use them. Every
-- statement may be run again.
--
-- The owner of the functions needs all rights here. A role under which proxies run
-- needs no more than this:
--
--   GRANT USAGE ON SCHEMA "weir" TO proxies;
--   GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "weir" TO proxies;
--   ALTER ROLE proxies SET default_transaction_isolation = 'read committed';
--   ALTER ROLE proxies SET statement_timeout = '5s';
--   ALTER ROLE proxies SET idle_in_transaction_session_timeout = '5s';

CREATE SCHEMA IF NOT EXISTS "weir";
REVOKE ALL ON SCHEMA "weir" FROM PUBLIC;

-- What each key has consumed: the fields of limit.State, and from when on the key is as
-- one never seen. No index but that of the names, so that every update is HOT.
CREATE UNLOGGED TABLE IF NOT EXISTS "weir".keys (
  name bytea PRIMARY KEY, tag int8 NOT NULL, at int8 NOT NULL, a int8 NOT NULL, b int8 NOT NULL,
  began int8 NOT NULL, under int8 NOT NULL, expires int8 NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- The entries of sliding_log: that something was admitted at an instant, and how many
-- permits before, since the log was last empty.
CREATE UNLOGGED TABLE IF NOT EXISTS "weir".log (
  name bytea, at int8, before int8 NOT NULL, expires int8 NOT NULL, PRIMARY KEY (name, at)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE IF NOT EXISTS "weir".documents (name text PRIMARY KEY, version int8 NOT NULL, body bytea NOT NULL);
CREATE TABLE IF NOT EXISTS "weir".leases (name text PRIMARY KEY, owner text NOT NULL, until timestamptz NOT NULL);

DO $$ BEGIN
  IF to_regtype('"weir".settled_1') IS NULL THEN
    CREATE TYPE "weir".settled_1 AS (at int8, a int8, b int8, adopted bool, x int8, y int8, free int8, began int8, under int8, base int8);
  END IF;
END $$;

-- The arithmetic of package limit, for the functions that follow. All numbers are
-- integers; products stay below 2^53 as there, or are bounded before. Instants and
-- windows are microseconds, rates are millionths of a permit per second. Algorithms:
-- 1 fixed, 2 sliding, 3 token, 4 sliding_log, 5 gcra, 6 leaky.

-- For how many µs longer than needed a key lives: to expire a bucket too early would be
-- to refill it.
CREATE OR REPLACE FUNCTION "weir".margin_1() RETURNS int8 LANGUAGE sql IMMUTABLE AS 'SELECT 1000000::int8';

-- max(0, a - elapsed * gain), without a product beyond 2^63.
CREATE OR REPLACE FUNCTION "weir".drained_1(a int8, elapsed int8, gain int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS
  'SELECT CASE WHEN a <= 0 OR elapsed >= (a + gain - 1) / gain THEN 0 ELSE a - elapsed * gain END';

-- How many µs it takes until so many parts come back: their quotient, rounded up.
CREATE OR REPLACE FUNCTION "weir".micros_1(parts int8, gain int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS
  'SELECT (parts + gain - 1) / gain';

-- The earliest elapsed time of a window of so many units at which a count of the one
-- before weighs at most weight.
CREATE OR REPLACE FUNCTION "weir".fades_1(count int8, weight int8, units int8, unit int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS
  'SELECT CASE WHEN count <= weight THEN 0 ELSE (units - ((weight + 1) * units - 1) / count) * unit END';

-- The unit in which sliding counts the elapsed time of a window.
CREATE OR REPLACE FUNCTION "weir".unit_1(duration int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS
  'SELECT CASE WHEN duration <= 60000000 THEN 1 WHEN duration <= 86400000000 THEN 1000 ELSE 1000000 END::int8';

-- What is ahead of a key that was kept at another rate, in parts of this one and at
-- most 2^53, and b under this limit; s.at is when, s.x and s.y are parts and gain, and
-- most is how many parts there is room for.
CREATE OR REPLACE FUNCTION "weir".carried_1(algorithm int8, tag int8, last int8, most int8, s "weir".settled_1) RETURNS "weir".settled_1
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  exact CONSTANT int8 := 9007199254740992;
  rate int8 := tag & 72057594037927935;
  parts int8 := 1000000000000 / gcd(rate, 1000000000000);
  gain int8 := rate / gcd(rate, 1000000000000);
  wait int8;
  whole int8;
  common int8;
BEGIN
  s.adopted := true;
  IF algorithm = 5 THEN
    s.a := "weir".drained_1(s.a, s.at - last, s.b);
    s.b := s.y;
    RETURN s;
  END IF;
  s.a := "weir".drained_1(s.a, s.at - last, gain);
  wait := "weir".micros_1(s.a, gain);
  IF algorithm = 6 THEN -- up to the same instant, rounded up to 1 µs
    s.a := CASE WHEN wait > exact / s.y THEN exact ELSE wait * s.y END;
    s.b := 0;
    RETURN s;
  END IF;
  whole := s.a / parts; -- as many tokens, rounded up to a part
  IF whole > exact / s.x THEN
    s.a := exact;
  ELSE
    common := gcd(s.x, parts);
    s.a := least(exact, whole * s.x + "weir".micros_1((s.a - whole * parts) * (s.x / common), parts / common));
  END IF;
  IF s.b = 0 THEN
    s.b := s.at + wait;
  ELSIF s.at >= s.b THEN
    s.a := least(s.a, most);
    s.b := 0;
  ELSE
    s.b := least(s.b, s.at + wait);
  END IF;
  RETURN s;
END $$;

-- Brings a key that is not a log's to now; one never seen has no tag. Inside a key time
-- never runs backwards. number is the window or the rate, gain is the limit of gcra. In
-- the result
--
--   at, a, b   as they are then
--   adopted    whether it was kept at another rate and is kept at this now
--   x, y       window: where it began, and its resolution (sliding);
--              others: a permit's parts, and how many come back in 1 µs
--   free       parts that are left of the limit; negative if it is exceeded
CREATE OR REPLACE FUNCTION "weir".settle_1(algorithm int8, permits int8, number int8, gain int8, now int8, k "weir".keys) RETURNS "weir".settled_1
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  s "weir".settled_1;
  most int8;
  common int8;
BEGIN
  s.at := greatest(now, k.at);
  s.a := coalesce(k.a, 0);
  s.b := coalesce(k.b, 0);
  s.adopted := false;
  s.began := 0;
  s.under := 0;
  s.base := 0;
  IF algorithm >= 3 THEN
    IF algorithm = 5 THEN
      s.x := number;
      s.y := gain;
    ELSE
      common := gcd(number, 1000000000000);
      s.x := 1000000000000 / common;
      s.y := number / common;
    END IF;
    most := permits * s.x;
    IF algorithm = 6 THEN most := most + s.x; END IF; -- the place of who goes at once
    IF k.tag IS NULL THEN
      IF algorithm = 5 THEN s.b := gain; END IF;
    ELSIF k.tag = (algorithm << 56 | number) AND (algorithm <> 5 OR k.b = gain) THEN
      s.a := "weir".drained_1(k.a, s.at - k.at, s.y);
      IF algorithm = 3 AND k.b > 0 AND s.at >= k.b THEN
        s.a := least(s.a, "weir".drained_1(most, s.at - k.b, s.y));
        s.b := 0;
        s.adopted := true;
      END IF;
    ELSE
      s := "weir".carried_1(algorithm, k.tag, k.at, most, s);
    END IF;
    s.free := most - s.a;
    RETURN s;
  END IF;
  s.x := s.at / number * number; -- windows are aligned to the epoch
  IF k.at < s.x - number THEN
    s.a := 0;
    s.b := 0;
  ELSIF k.at < s.x THEN
    s.b := s.a;
    s.a := 0;
  END IF;
  IF algorithm = 1 THEN
    s.b := 0;
    s.y := 1;
  ELSE
    s.y := "weir".unit_1(number);
  END IF;
  s.free := permits - s.a - s.b * (number / s.y - (s.at - s.x) / s.y) / (number / s.y);
  RETURN s;
END $$;

-- The instant at which a key is as new if nothing is taken until then.
CREATE OR REPLACE FUNCTION "weir".new_at_1(algorithm int8, number int8, at int8, a int8, b int8, x int8, y int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN algorithm >= 3 THEN at + (a + y - 1) / y
    WHEN algorithm = 1 THEN x + CASE WHEN a > 0 THEN number ELSE 0 END
    WHEN a > 0 THEN x + number + "weir".fades_1(a, 0, number / y, y)
    ELSE x + "weir".fades_1(b, 0, number / y, y) END
$$;

-- The instant at which a key is within its limit again that has exceeded it; free is
-- negative.
CREATE OR REPLACE FUNCTION "weir".within_1(algorithm int8, permits int8, number int8, s "weir".settled_1) RETURNS int8
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF algorithm >= 3 THEN RETURN s.at + "weir".micros_1(-s.free, s.y); END IF;
  IF algorithm = 1 THEN RETURN s.x + number; END IF;
  IF s.a <= permits THEN RETURN s.x + "weir".fades_1(s.b, permits - s.a, number / s.y, s.y); END IF;
  RETURN s.x + number + "weir".fades_1(s.a, permits, number / s.y, s.y);
END $$;

-- Takes the advisory locks of those numbers, in ascending order, within so many ms (0:
-- as long as it takes) each, until the transaction ends, and returns for how many it had
-- to wait. Whoever changes a key holds the lock of its rule and value. A row that somebody
-- else has locked is waited for no longer either.
CREATE OR REPLACE FUNCTION "weir".lock_1(patience int4, locks int4[]) RETURNS int4
LANGUAGE plpgsql AS $$
DECLARE
  class CONSTANT int4 := 1464158546;
  n int4;
  waits int4 := 0;
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'limits are decided at isolation level READ COMMITTED' USING ERRCODE = 'WR001';
  END IF;
  
  PERFORM set_config('lock_timeout', patience::text, true);
  FOREACH n IN ARRAY locks LOOP
    IF NOT pg_try_advisory_xact_lock(class, n) THEN
      PERFORM pg_advisory_xact_lock(class, n);
      waits := waits + 1;
    END IF;
  END LOOP;
  RETURN waits;
END $$;

-- The server's clock, unless a test turns another.
CREATE OR REPLACE FUNCTION "weir".now_1(clock int8) RETURNS int8 LANGUAGE sql VOLATILE AS
  'SELECT CASE WHEN clock > 0 THEN clock ELSE (extract(epoch FROM clock_timestamp()) * 1000000)::int8 END';

-- How many of n requests go by one counter, of which so many parts are free.
CREATE OR REPLACE FUNCTION "weir".room_1(n int8, most int8, cost int8, parts int8, free int8, reserve int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN cost = 0 THEN n
    WHEN cost > most - reserve OR free - reserve * parts < cost * parts THEN 0
    ELSE least(n, (free - reserve * parts) / (cost * parts)) END
$$;

-- How many of n requests find a slot soon enough; ahead are the parts before them.
CREATE OR REPLACE FUNCTION "weir".patient_1(n int8, delay int8, cost int8, parts int8, gain int8, ahead int8) RETURNS int8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  most int8 := 9007199254740992;
BEGIN
  IF delay = 0 OR cost = 0 THEN RETURN n; END IF;
  IF delay <= most / gain THEN most := delay * gain; END IF;
  IF ahead > most THEN RETURN 0; END IF;
  RETURN least(n, (most - ahead) / (cost * parts) + 1);
END $$;

-- The entries of a log, as pairs of an instant and the permits before it, that a caller
-- needs in order to know when each of some numbers of permits, those wanted, has left
-- the window: used are in it, admitted after cut, and base before them.
CREATE OR REPLACE FUNCTION "weir".told_1(key bytea, cut int8, base int8, used int8, wanted int8[]) RETURNS int8[]
LANGUAGE plpgsql AS $$
DECLARE
  pairs int8[] := '{}';
  told int8 := 0;
  through int8;
  permits int8;
  since int8 := cut;
  next int8;
  this int8;
BEGIN
  FOR permits IN SELECT v FROM unnest(wanted) v WHERE v > 0 AND v <= used ORDER BY v LOOP
    CONTINUE WHEN permits <= told;
    SELECT e.at, e.before - base INTO next, through FROM log e
      WHERE e.name = key AND e.at > since AND e.before >= base + permits ORDER BY e.at LIMIT 1;
    IF NOT FOUND THEN
      next := 9223372036854775807;
      through := used;
    END IF;
    SELECT e.at INTO this FROM log e WHERE e.name = key AND e.at > cut AND e.at < next ORDER BY e.at DESC LIMIT 1;
    pairs := pairs || ARRAY[this, told];
    told := through;
    since := this;
  END LOOP;
  IF told < used THEN
    SELECT e.at INTO this FROM log e WHERE e.name = key AND e.at > cut ORDER BY e.at DESC LIMIT 1;
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
--   gives     places in queues that are given back before anything is decided, if their
--             slots are still to come and nobody has booked after them: for each the
--             index of the key in names, then permits, number, cost, slot and grace
--   groups    for each group the number of its counters and n, where 0 only reads; then
--             for each counter the index of the key in names, and algorithm, permits (the
--             capacity, the burst of gcra), number (the window, or the rate), cost, gain
--             (the limit of gcra), reserve, longest delay, overshoot and grace
--
-- Returns the instant, for how many locks it had to wait, how many places were given
-- back, and for each group how many go, or -1 when a key of it holds something else.
-- states has, for each counter in turn, tag, at, a, b, began and under that its key had
-- before, all 0 for a new one. entries has the part of logs that the caller needs: the
-- number of the counter in states, an instant, and the permits before it.
--
-- A refusal writes nothing.
CREATE OR REPLACE FUNCTION "weir".take_1(
  clock int8, patience int4, locks int4[], names bytea[], gives int8[], groups int8[],
  OUT instant int8, OUT waits int4, OUT given int4, OUT granted int8[], OUT states int8[], OUT entries int8[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = "weir", pg_temp AS $$
DECLARE
  pos int4 := 1;      -- in groups
  told int4 := 0;     -- counters in states
  first int4;         -- of the group's counters in groups
  size int4;          -- of the group
  decided int4 := 0;  -- groups
  n int8;
  going int8;
  charge int8;
  free int8;
  most int8;
  pair int4;
  pairs int8[];
  wanted int8[];
  i int4;
  c int4;
  index int4;
  kept keys[];        -- the keys, as they are after what was decided
  changed bool[];
  k keys;
  held settled_1[];   -- the counters of a group
  s settled_1;
  -- a counter
  algorithm int8;
  permits int8;
  number int8;
  cost int8;
  reserve int8;
  overshoot int8;
  grace int8;
BEGIN
  given := 0;
  granted := '{}';
  states := '{}';
  entries := '{}';
  waits := lock_1(patience, locks);
  instant := now_1(clock);
  FOR index IN 1..cardinality(names) LOOP
    SELECT * INTO k FROM keys t WHERE t.name = names[index] AND t.expires > instant;
    k.name := names[index];
    kept[index] := k;
    changed[index] := false;
  END LOOP;

  FOR i IN 0..cardinality(gives) / 6 - 1 LOOP
    index := gives[6 * i + 1];
    k := kept[index];
    CONTINUE WHEN k.tag IS NULL OR k.tag >> 56 <> 6;
    number := gives[6 * i + 3];
    s := settle_1(6, gives[6 * i + 2], number, 0, instant, k);
    charge := gives[6 * i + 4] * s.x;
    CONTINUE WHEN s.adopted OR charge >= s.a OR s.at + micros_1(s.a - charge, s.y) <> gives[6 * i + 5];
    k.at := s.at;
    k.a := s.a - charge;
    k.expires := greatest(new_at_1(6, number, s.at, k.a, 0, s.x, s.y), CASE WHEN k.began > 0 THEN k.under + gives[6 * i + 6] END, instant) + margin_1();
    kept[index] := k;
    changed[index] := true;
    given := given + 1;
  END LOOP;

  WHILE pos < cardinality(groups) LOOP
    size := groups[pos];
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
      reserve := groups[c + 6];
      overshoot := groups[c + 8];
      k := kept[index];
      IF k.tag IS NOT NULL AND (k.tag >> 56 <> algorithm OR algorithm NOT IN (3, 6) AND k.tag & 72057594037927935 <> number) THEN
        going := -1;
        EXIT;
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
          SELECT e.before INTO s.base FROM log e WHERE e.name = k.name AND e.at > s.at - number ORDER BY e.at LIMIT 1;
          IF FOUND THEN
            s.a := k.a;
            s.b := k.a - s.base;
          ELSE
            s.base := 0;
          END IF;
        END IF;
        s.free := permits - s.b;
      ELSE
        s := settle_1(algorithm, permits, number, groups[c + 5], instant, k);
      END IF;
      free := s.free;
      charge := 1; -- parts of a permit
      IF algorithm = 3 OR algorithm > 4 THEN charge := s.x; END IF;
      most := permits;
      IF overshoot > 0 THEN
        grace := groups[c + 9];
        IF k.began > 0 AND s.at < k.under + grace THEN
          s.began := k.began;
          s.under := k.under;
        END IF;
        IF s.began = 0 OR s.at < s.began + grace THEN
          most := most + overshoot;
          free := free + overshoot * charge;
        END IF;
      END IF;
      going := room_1(going, most, cost, charge, free, reserve);
      IF algorithm = 6 AND going > 0 THEN going := patient_1(going, groups[c + 7], cost, s.x, s.y, s.a); END IF;
      held[i] := s;
    END LOOP;

    -- Nothing was written of this group so far, and nothing fails from here on.
    FOR i IN 1..size LOOP
      c := first + 10 * (i - 1);
      index := groups[c];
      k := kept[index];
      states[told + 1] := coalesce(k.tag, 0);
      states[told + 2] := coalesce(k.at, 0);
      states[told + 3] := coalesce(k.a, 0);
      states[told + 4] := coalesce(k.b, 0);
      states[told + 5] := coalesce(k.began, 0);
      states[told + 6] := coalesce(k.under, 0);
      told := told + 6;
      CONTINUE WHEN going < 0;
      s := held[i];
      algorithm := groups[c + 1];
      permits := groups[c + 2];
      number := groups[c + 3];
      cost := groups[c + 4];
      overshoot := groups[c + 8];
      grace := groups[c + 9];
      charge := going * cost;
      IF algorithm = 4 THEN
        IF k.tag IS NOT NULL THEN
          states[told - 3] := s.b; -- the entries are told as of a log with no others
          wanted := '{}';
          free := s.b + charge - permits + cost + groups[c + 6];
          IF going < n THEN wanted := wanted || free; END IF;
          IF overshoot > 0 THEN
            wanted := wanted || (free - overshoot) || ARRAY(SELECT s.b + j * cost - permits FROM generate_series(1, going) j);
          END IF;
          pairs := told_1(k.name, s.at - number, s.base, s.b, wanted);
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
            pairs := told_1(k.name, s.at - number, s.base, s.b, ARRAY[free]);
            s.under := pairs[1] + number;
          END IF;
        END IF;
        DELETE FROM log e WHERE e.name = k.name AND e.at <= s.at - number;
        INSERT INTO log VALUES (k.name, s.at, s.a, s.at + number) ON CONFLICT DO NOTHING;
        k.a := s.a + charge;
        k.b := 0;
        k.expires := s.at + number;
      ELSE
        CONTINUE WHEN charge = 0 AND (n = 0 OR NOT s.adopted);
        k.a := s.a;
        k.b := s.b;
        IF charge > 0 THEN
          IF algorithm >= 3 THEN charge := charge * s.x; END IF;
          k.a := k.a + charge;
          IF algorithm = 3 THEN k.b := 0; END IF;
          IF overshoot > 0 AND s.free < charge THEN
            IF s.began = 0 THEN s.began := s.at; END IF;
            s.a := k.a;
            s.free := s.free - charge;
            s.under := within_1(algorithm, permits, number, s);
          END IF;
        END IF;
        k.expires := new_at_1(algorithm, number, s.at, k.a, k.b, s.x, s.y);
      END IF;
      k.tag := algorithm << 56 | number;
      k.at := s.at;
      k.began := s.began;
      k.under := s.under;
      k.expires := greatest(k.expires, CASE WHEN s.began > 0 THEN s.under + grace END, instant) + margin_1();
      kept[index] := k;
      changed[index] := true;
    END LOOP;
    decided := decided + 1;
    granted[decided] := going;
    pos := first + 10 * size;
  END LOOP;

  FOR index IN 1..cardinality(names) LOOP
    CONTINUE WHEN NOT changed[index];
    k := kept[index];
    INSERT INTO keys AS t VALUES (k.name, k.tag, k.at, k.a, k.b, k.began, k.under, k.expires)
      ON CONFLICT ON CONSTRAINT keys_pkey DO UPDATE SET tag = excluded.tag, at = excluded.at, a = excluded.a, b = excluded.b,
        began = excluded.began, under = excluded.under, expires = excluded.expires;
  END LOOP;
END $$;

-- Gives a key that many permits more than it has now under every kind of limits, at most
-- until it is as new; see limit.State.Add. The names of the key begin with base, and no
-- other names do. edits is the document whose version counts edits. What is kept lives as
-- long as before, which is longer than it needs then. Returns under how many kinds the
-- key could use some, and -1, with nothing changed, when a name holds something else.
CREATE OR REPLACE FUNCTION "weir".add_1(clock int8, patience int4, lock int4, base bytea, amount int8, edits text) RETURNS int4
LANGUAGE plpgsql SECURITY DEFINER SET search_path = "weir", pg_temp AS $$
DECLARE
  now int8;
  algorithm int8;
  number int8;
  less int8;
  part int8;
  gain int8;
  before0 int8;
  since int8;
  k keys;
  s settled_1;
  changed int4 := 0;
BEGIN
  PERFORM lock_1(patience, ARRAY[lock]);
  now := now_1(clock);
  IF EXISTS (SELECT FROM keys t WHERE t.name >= base AND t.name < base || '\xff'::bytea AND t.expires > now AND t.tag >> 56 NOT BETWEEN 1 AND 6) THEN
    RETURN -1;
  END IF;
  FOR k IN SELECT * FROM keys t WHERE t.name >= base AND t.name < base || '\xff'::bytea AND t.expires > now LOOP
    algorithm := k.tag >> 56;
    number := k.tag & 72057594037927935;
    IF algorithm = 6 THEN
      CONTINUE;
    ELSIF algorithm = 4 THEN
      k.at := greatest(now, k.at);
      SELECT e.before INTO before0 FROM log e WHERE e.name = k.name AND e.at > k.at - number ORDER BY e.at LIMIT 1;
      CONTINUE WHEN NOT FOUND OR amount = 0;
      IF amount >= k.a - before0 THEN
        DELETE FROM log e WHERE e.name = k.name;
        k.a := 0;
      ELSE -- the oldest leave
        SELECT max(e.at) INTO since FROM log e WHERE e.name = k.name AND e.at > k.at - number AND e.before <= before0 + amount;
        DELETE FROM log e WHERE e.name = k.name AND e.at < since;
        UPDATE log e SET before = before0 + amount WHERE e.name = k.name AND e.at = since;
      END IF;
    ELSIF algorithm = 3 OR algorithm = 5 THEN
      part := number;
      gain := k.b;
      IF algorithm = 3 THEN
        part := 1000000000000 / gcd(number, 1000000000000);
        gain := number / gcd(number, 1000000000000);
      END IF;
      k.a := drained_1(k.a, greatest(now, k.at) - k.at, gain);
      k.at := greatest(now, k.at);
      CONTINUE WHEN k.a = 0 OR amount = 0;
      k.a := CASE WHEN amount > k.a / part THEN 0 ELSE k.a - amount * part END;
    ELSE
      s := settle_1(algorithm, 0, number, 0, now, k);
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
    UPDATE keys t SET at = k.at, a = k.a, b = k.b WHERE t.name = k.name;
    changed := changed + 1;
  END LOOP;
  PERFORM edited_1(edits);
  RETURN changed;
END $$;

-- Makes a key as one never seen under all kinds of limits. Returns how many there were.
CREATE OR REPLACE FUNCTION "weir".forget_1(clock int8, patience int4, lock int4, base bytea, edits text) RETURNS int4
LANGUAGE plpgsql SECURITY DEFINER SET search_path = "weir", pg_temp AS $$
DECLARE
  forgotten int4;
BEGIN
  PERFORM lock_1(patience, ARRAY[lock]);
  DELETE FROM log e WHERE e.name >= base AND e.name < base || '\xff'::bytea;
  DELETE FROM keys t WHERE t.name >= base AND t.name < base || '\xff'::bytea AND t.expires > now_1(clock);
  GET DIAGNOSTICS forgotten = ROW_COUNT;
  PERFORM edited_1(edits);
  RETURN forgotten;
END $$;

-- Counts an edit of a key.
CREATE OR REPLACE FUNCTION "weir".edited_1(edits text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO "weir".documents AS t VALUES (edits, 1, '') ON CONFLICT ON CONSTRAINT documents_pkey DO UPDATE SET version = t.version + 1
$$;

-- For each document a text that is another when the document is, in the order of names.
CREATE OR REPLACE FUNCTION "weir".marks_1(names text[]) RETURNS SETOF text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = "weir", pg_temp AS $$
  SELECT coalesce(d.version || ' ' || d.xmin::text, '') FROM unnest(names) WITH ORDINALITY AS n (name, place) LEFT JOIN documents d ON d.name = n.name ORDER BY n.place
$$;

-- A document; no row if it was never written.
CREATE OR REPLACE FUNCTION "weir".document_1(which text, OUT version int8, OUT body bytea) RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER SET search_path = "weir", pg_temp AS $$
  SELECT d.version, d.body FROM documents d WHERE d.name = which
$$;

-- Writes a document if its version still is the one that the writer knows, 0 for one
-- never written. Returns the version that was written, or 0.
CREATE OR REPLACE FUNCTION "weir".write_1(which text, known int8, content bytea) RETURNS int8
LANGUAGE plpgsql SECURITY DEFINER SET search_path = "weir", pg_temp AS $$
BEGIN
  IF known = 0 THEN
    INSERT INTO documents VALUES (which, 1, content) ON CONFLICT DO NOTHING;
  ELSE
    UPDATE documents d SET version = d.version + 1, body = content WHERE d.name = which AND d.version = known;
  END IF;
  RETURN CASE WHEN FOUND THEN known + 1 ELSE 0 END;
END $$;

-- Takes a lease for so many ms, keeps it, or gives it back (0 ms). Returns whether who
-- asks, a word that nobody else has, holds it afterwards.
CREATE OR REPLACE FUNCTION "weir".lease_1(which text, who text, ms int8) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = "weir", pg_temp AS $$
BEGIN
  IF ms = 0 THEN
    DELETE FROM leases l WHERE l.name = which AND l.owner = who;
    RETURN false;
  END IF;
  INSERT INTO leases AS l VALUES (which, who, clock_timestamp() + ms * interval '1 ms')
    ON CONFLICT ON CONSTRAINT leases_pkey DO UPDATE SET owner = excluded.owner, until = excluded.until
    WHERE l.owner = excluded.owner OR l.until <= clock_timestamp();
  RETURN FOUND;
END $$;

-- Fails unless limits can be decided and kept here, also for new keys: there must be room
-- for more rows than fit on a page.
CREATE OR REPLACE FUNCTION "weir".probe_1(which bytea) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = "weir", pg_temp AS $$
  INSERT INTO keys SELECT which || n::text::bytea, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(1, 80) n ON CONFLICT DO NOTHING;
  DELETE FROM keys WHERE name > which AND name <= which || '9999'::bytea;
$$;

-- Removes what has expired in so many blocks of keys or log, from one on; what is locked
-- is left. Returns how many rows it removed, and the block to go on with: 0 at the end.
CREATE OR REPLACE FUNCTION "weir".sweep_1(which text, start int8, blocks int8, OUT removed int8, OUT next int8)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = "weir", pg_temp AS $$
BEGIN
  EXECUTE format('DELETE FROM %1$I t WHERE t.expires <= $1 AND t.ctid = ANY (ARRAY(
    SELECT u.ctid FROM %1$I u WHERE u.ctid >= $2 AND u.ctid < $3 AND u.expires <= $1 FOR UPDATE SKIP LOCKED))', which)
    USING now_1(0), format('(%s,0)', start)::tid, format('(%s,0)', start + blocks)::tid;
  GET DIAGNOSTICS removed = ROW_COUNT;
  next := start + blocks;
  IF next * current_setting('block_size')::int8 >= pg_relation_size(format('%I', which)::regclass) THEN next := 0; END IF;
END $$;

-- The version of the schema, of which a program must know all.
CREATE OR REPLACE FUNCTION "weir".version() RETURNS int4 LANGUAGE sql IMMUTABLE AS 'SELECT 1';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA "weir" FROM PUBLIC;
