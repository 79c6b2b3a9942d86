-- The arithmetic of package limit, for the functions that follow. All numbers are
-- integers; products stay below 2^53 as there, or are bounded before. Instants and
-- windows are microseconds, rates are millionths of a permit per second. Algorithms:
-- 1 fixed, 2 sliding, 3 token, 4 sliding_log, 5 gcra, 6 leaky.
--
-- Functions that have no search_path of their own name the types of variables by keywords or with
-- their schema: a session keeps a function as it was when it was first called, perhaps by the
-- role itself with a search_path of its own, and later calls by other functions use it.

-- For how many µs longer than needed a key lives: to expire a bucket too early would be
-- to refill it.
CREATE OR REPLACE FUNCTION @schema@.margin_1() RETURNS int8 LANGUAGE sql IMMUTABLE AS 'SELECT 1000000::int8';

-- max(0, a - elapsed * gain), without a product beyond 2^63.
CREATE OR REPLACE FUNCTION @schema@.drained_1(a int8, elapsed int8, gain int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS
  'SELECT CASE WHEN a <= 0 OR elapsed >= (a + gain - 1) / gain THEN 0 ELSE a - elapsed * gain END';

-- How many µs it takes until so many parts come back: their quotient, rounded up.
CREATE OR REPLACE FUNCTION @schema@.micros_1(parts int8, gain int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS
  'SELECT (parts + gain - 1) / gain';

-- The earliest elapsed time of a window of so many units at which a count of the one
-- before weighs at most weight.
CREATE OR REPLACE FUNCTION @schema@.fades_1(count int8, weight int8, units int8, unit int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS
  'SELECT CASE WHEN count <= weight THEN 0 ELSE (units - ((weight + 1) * units - 1) / count) * unit END';

-- The unit in which sliding counts the elapsed time of a window.
CREATE OR REPLACE FUNCTION @schema@.unit_1(duration int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS
  'SELECT CASE WHEN duration <= 60000000 THEN 1 WHEN duration <= 86400000000 THEN 1000 ELSE 1000000 END::int8';

-- What is ahead of a key that was kept at another rate, in parts of this one and at
-- most 2^53, and b under this limit; s.at is when, s.x and s.y are parts and gain, and
-- most is how many parts there is room for.
CREATE OR REPLACE FUNCTION @schema@.carried_1(algorithm int8, tag int8, last int8, most int8, s @schema@.settled_1) RETURNS @schema@.settled_1
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  exact CONSTANT bigint := 9007199254740992;
  rate bigint := tag & 72057594037927935;
  parts bigint := 1000000000000 / gcd(rate, 1000000000000);
  gain bigint := rate / gcd(rate, 1000000000000);
  wait bigint;
  whole bigint;
  common bigint;
BEGIN
  s.adopted := true;
  IF algorithm = 5 THEN
    s.a := @schema@.drained_1(s.a, s.at - last, s.b);
    s.b := s.y;
    RETURN s;
  END IF;
  s.a := @schema@.drained_1(s.a, s.at - last, gain);
  wait := @schema@.micros_1(s.a, gain);
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
    s.a := least(exact, whole * s.x + @schema@.micros_1((s.a - whole * parts) * (s.x / common), parts / common));
  END IF;
  IF s.a = 0 THEN -- nothing to forgive
    s.b := 0;
  ELSIF s.b = 0 THEN
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
CREATE OR REPLACE FUNCTION @schema@.settle_1(algorithm int8, permits int8, number int8, gain int8, now int8, k @schema@.keys) RETURNS @schema@.settled_1
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  s @schema@.settled_1;
  at bigint := greatest(now, k.at);
  a bigint;
  x bigint := number;
  y bigint := gain;
  most bigint;
BEGIN
  IF algorithm >= 3 THEN
    IF algorithm <> 5 THEN
      y := gcd(number, 1000000000000);
      x := 1000000000000 / y;
      y := number / y;
    END IF;
    most := CASE WHEN algorithm = 6 THEN permits + 1 ELSE permits END * x; -- a queue has the place of who goes at once
    IF k.tag IS NULL THEN
      RETURN (at, 0, CASE WHEN algorithm = 5 THEN gain ELSE 0 END, false, x, y, most, 0, 0, 0)::@schema@.settled_1;
    END IF;
    a := @schema@.drained_1(k.a, at - k.at, y);
    CASE
      WHEN k.tag <> (algorithm << 56 | number) OR algorithm = 5 AND k.b <> gain THEN
        s := @schema@.carried_1(algorithm, k.tag, k.at, most, (at, k.a, k.b, false, x, y, 0, 0, 0, 0)::@schema@.settled_1);
        s.free := most - s.a;
        RETURN s;
      WHEN algorithm = 3 AND k.b > 0 AND at >= k.b THEN
        a := least(a, @schema@.drained_1(most, at - k.b, y));
        RETURN (at, a, 0, true, x, y, most - a, 0, 0, 0)::@schema@.settled_1;
      ELSE
        RETURN (at, a, k.b, false, x, y, most - a, 0, 0, 0)::@schema@.settled_1;
    END CASE;
  END IF;
  s := (at, coalesce(k.a, 0), coalesce(k.b, 0), false, at / number * number, 1, 0, 0, 0, 0)::@schema@.settled_1; -- windows are aligned to the epoch
  IF k.at < s.x - number THEN
    s.a := 0;
    s.b := 0;
  ELSIF k.at < s.x THEN
    s.b := s.a;
    s.a := 0;
  END IF;
  IF algorithm = 1 THEN
    s.b := 0;
  ELSE
    s.y := @schema@.unit_1(number);
  END IF;
  s.free := permits - s.a - s.b * (number / s.y - (at - s.x) / s.y) / (number / s.y);
  RETURN s;
END $$;

-- The instant at which a key is as new if nothing is taken until then.
CREATE OR REPLACE FUNCTION @schema@.new_at_1(algorithm int8, number int8, at int8, a int8, b int8, x int8, y int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN algorithm >= 3 THEN at + (a + y - 1) / y
    WHEN algorithm = 1 THEN x + CASE WHEN a > 0 THEN number ELSE 0 END
    WHEN a > 0 THEN x + number + @schema@.fades_1(a, 0, number / y, y)
    ELSE x + @schema@.fades_1(b, 0, number / y, y) END
$$;

-- The instant at which a key is within its limit again that has exceeded it; free is
-- negative.
CREATE OR REPLACE FUNCTION @schema@.within_1(algorithm int8, permits int8, number int8, s @schema@.settled_1) RETURNS int8
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF algorithm >= 3 THEN RETURN s.at + @schema@.micros_1(-s.free, s.y); END IF;
  IF algorithm = 1 THEN RETURN s.x + number; END IF;
  IF s.a <= permits THEN RETURN s.x + @schema@.fades_1(s.b, permits - s.a, number / s.y, s.y); END IF;
  RETURN s.x + number + @schema@.fades_1(s.a, permits, number / s.y, s.y);
END $$;

-- Takes the advisory locks of those numbers, in ascending order, within so many ms (0:
-- as long as it takes) each, until the transaction ends, and returns for how many it had
-- to wait. Whoever changes a key holds the lock of its rule and value. A row that somebody
-- else has locked is waited for no longer either.
CREATE OR REPLACE FUNCTION @schema@.lock_1(patience int4, locks int4[]) RETURNS int4
LANGUAGE plpgsql AS $$
DECLARE
  class CONSTANT integer := 1464158546;
  n integer;
  waits integer := 0;
  timeout pg_catalog.text;
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'limits are decided at isolation level READ COMMITTED' USING ERRCODE = 'WR001';
  END IF;
  @durable@
  timeout := set_config('lock_timeout', patience::text, true); -- an assignment is cheaper than PERFORM
  FOREACH n IN ARRAY locks LOOP
    IF NOT pg_try_advisory_xact_lock(class, n) THEN
      PERFORM pg_advisory_xact_lock(class, n);
      waits := waits + 1;
    END IF;
  END LOOP;
  RETURN waits;
END $$;

-- The server's clock, unless a test turns another. Seconds in floating point are right to less
-- than a microsecond, and much faster than numeric ones.
CREATE OR REPLACE FUNCTION @schema@.now_1(clock int8) RETURNS int8 LANGUAGE sql VOLATILE AS
  'SELECT CASE WHEN clock > 0 THEN clock ELSE (date_part(''epoch'', clock_timestamp()) * 1000000)::int8 END';
