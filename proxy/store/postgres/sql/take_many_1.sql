-- The two functions here decide as take_1 does, and are faster for groups of a single counter
-- of token or gcra whose key no other group of the call has. Such a group usually finds its
-- key kept under the same limit and not ahead of the clock, with room for all n requests. Then what is needed is known
-- before the key is read: its new row has charge parts more than what has not come back yet.
--
-- expires is at least margin_1() after the instant at which a key is as new, and stays so if
-- it moves by what a charge adds. So a key that has expired has nothing ahead of it, and needs
-- no other treatment. What is given back moves it less far than it could, so that it is bounded
-- by the time after which nothing can be ahead of the key.
--
-- Of a key they are told
--
--   tag, b    what the row has under this limit
--   charge    the parts that n requests take
--   gain      how many parts come back in 1 µs
--   most      how many parts may be ahead of them
--   enough    the µs after which nothing is ahead of a key, whatever was
--   drain     the µs in which charge comes back
--   few       how many parts may be ahead of one request, of which there are n

-- Decides one such group. PL/pgSQL keeps the plans of expressions, and makes the execution state
-- of a simple one anew in each transaction. So all that usually precedes the decision is one
-- expression; what else there is to do about the lock, lock_1 does. SQL does not promise the order
-- of its parts, which does no harm: the try never waits, and lock_timeout is set before the UPDATE.
CREATE OR REPLACE FUNCTION @schema@.take_one_1(
  clock int8, patience int4, lock int4, key bytea, its_tag int8, its_b int8, charge int8, gain int8, most int8, enough int8, drain int8, groups int8[],
  OUT instant int8, OUT waits int4, OUT given int4, OUT granted int8[], OUT states int8[], OUT entries int8[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
  @durable@
  IF current_setting('transaction_isolation') <> 'read committed' OR set_config('lock_timeout', patience::text, true) IS NULL
      OR NOT pg_try_advisory_xact_lock(1464158546, lock) THEN
    waits := @schema@.lock_1(patience, ARRAY[lock]);
  END IF;
  instant := @schema@.now_1(clock);
  UPDATE @schema@.keys t SET at = instant, a = charge + greatest(0, t.a - least(enough, (instant - t.at)) * gain),
      began = 0, under = 0, expires = least(drain + greatest(t.expires, instant + @schema@.margin_1()), enough + instant + @schema@.margin_1())
    WHERE t.name = key AND t.tag = its_tag AND t.b = its_b AND t.at <= instant AND t.a - least(enough, (instant - t.at)) * gain <= most
    RETURNING coalesce(waits, 0), 0, ARRAY[groups[2]], ARRAY[t.tag, t.at, t.a - charge, t.b, 0, 0], '{}' INTO waits, given, granted, states, entries;
  IF NOT FOUND THEN
    waits := coalesce(waits, 0);
    SELECT t.given, t.granted, t.states, t.entries INTO given, granted, states, entries
      FROM @schema@.take_1(instant, patience, '{}', ARRAY[key], '{}', groups) t;
  END IF;
END $$;

-- Decides such groups and others in one call.
--
--   locks    of all keys
--   names    the keys of such groups
--   numbers  for each of them tag, b, charge, gain, most, enough, drain and few
--   singles  such groups, as take_1 takes them; the index of the key does not matter
--   others, gives, groups
--            the names that take_1 takes, and what it does with them
--
-- places tells which of names took what they wanted, and as a negative number which had no
-- room for any. ats and aheads are what their at and a were before, both 0 for a new key.
-- What else is returned is what take_1 returns about groups and then about the others of
-- singles.
--
-- The statements must not read a whole table when it has grown, so that all ways but to look
-- for each name are off; a plan for each number of keys would cost more than it saves.
CREATE OR REPLACE FUNCTION @schema@.take_many_1(
  clock int8, patience int4, locks int4[], names bytea[], numbers int8[], singles int8[], others bytea[], gives int8[], groups int8[],
  OUT instant int8, OUT waits int4, OUT given int4, OUT granted int8[], OUT states int8[], OUT entries int8[],
  OUT places int8[], OUT ats int8[], OUT aheads int8[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_indexscan = off SET enable_mergejoin = off SET enable_hashjoin = off AS $$
BEGIN
  waits := @schema@.lock_1(patience, locks);
  instant := @schema@.now_1(clock);
  WITH done AS (
    UPDATE @schema@.keys t SET at = instant, a = numbers[8 * i - 5] + greatest(0, t.a - least(numbers[8 * i - 2], (instant - t.at)) * numbers[8 * i - 4]),
        began = 0, under = 0, expires = least(numbers[8 * i - 1] + greatest(t.expires, instant + @schema@.margin_1()),
          numbers[8 * i - 2] + instant + @schema@.margin_1())
      FROM unnest(names) WITH ORDINALITY u (name, i)
      WHERE t.name = u.name AND t.tag = numbers[8 * i - 7] AND t.b = numbers[8 * i - 6] AND t.at <= instant
        AND t.a - least(numbers[8 * i - 2], (instant - t.at)) * numbers[8 * i - 4] <= numbers[8 * i - 3]
      RETURNING i, t.at, t.a - numbers[8 * i - 5] AS ahead)
  SELECT coalesce(array_agg(d.i), '{}'), coalesce(array_agg(d.at), '{}'), coalesce(array_agg(d.ahead), '{}'), 0, '{}', '{}', '{}'
    INTO places, ats, aheads, given, granted, states, entries FROM done d;

  IF cardinality(places) < cardinality(names) THEN
    WITH added AS (
      INSERT INTO @schema@.keys AS t SELECT u.name, numbers[8 * i - 7], instant, numbers[8 * i - 5], numbers[8 * i - 6], 0, 0, numbers[8 * i - 1] + instant + @schema@.margin_1()
        FROM unnest(names) WITH ORDINALITY u (name, i) WHERE i <> ALL (places)
        ON CONFLICT ON CONSTRAINT keys_pkey DO NOTHING RETURNING t.name)
    SELECT places || array_agg(array_position(names, a.name)::int8), ats || array_agg(0::int8), aheads || array_agg(0::int8) INTO places, ats, aheads FROM added a;
  END IF;
  IF cardinality(places) < cardinality(names) THEN
    SELECT places || array_agg(-i), ats || array_agg(instant), aheads || array_agg(t.a - least(numbers[8 * i - 2], (instant - t.at)) * numbers[8 * i - 4])
      INTO places, ats, aheads
      FROM unnest(names) WITH ORDINALITY u (name, i) JOIN @schema@.keys t USING (name)
      WHERE i <> ALL (places) AND t.tag = numbers[8 * i - 7] AND t.b = numbers[8 * i - 6] AND t.at <= instant
        AND t.a - least(numbers[8 * i - 2], (instant - t.at)) * numbers[8 * i - 4] > numbers[8 * i];
  END IF;
  IF cardinality(places) < cardinality(names) THEN
    FOR i IN 1..cardinality(names) LOOP
      CONTINUE WHEN i = ANY (places) OR -i = ANY (places);
      others := others || names[i];
      groups := groups || singles[12 * i - 11:12 * i - 10] || cardinality(others)::int8 || singles[12 * i - 8:12 * i];
    END LOOP;
  END IF;
  IF cardinality(gives) + cardinality(groups) > 0 THEN
    SELECT t.given, t.granted, t.states, t.entries INTO given, granted, states, entries
      FROM @schema@.take_1(instant, patience, '{}', others, gives, groups) t;
  END IF;
END $$;
