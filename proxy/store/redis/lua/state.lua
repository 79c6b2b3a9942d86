-- The arithmetic of package limit, for the scripts that follow this text.
--
-- All numbers are integers below 2^53, which Lua's float64 holds exactly; a
-- floor of a quotient of two such numbers is exact too. Instants and windows
-- are microseconds, rates are millionths of a permit per second.
--
-- The caller describes a counter by
--
--   algorithm   FIXED, SLIDING, TOKEN, LOG, GCRA or LEAKY
--   permits     the limit; token, leaky: the capacity; gcra: the burst
--   number      the window; token, leaky: the rate
--   gain        gcra: the limit
--
-- and what its key has consumed is (see limit.State)
--
--   tagged, tag   algorithm and number that it was kept under; tagged 0: new
--   at            the latest instant at which something was taken
--   a             fixed: count; sliding: count of this window; token, gcra, leaky:
--                 parts ahead; log: count
--   b             sliding: count of the window before; gcra: the limit; token: when
--                 nothing is owed any more, or 0: see queue.go
--   began, under  soft: when overshoot began to be used, 0 if it may be; from when
--                 on the key is within its limit
--
-- They are passed as plain values: tables and closures are what costs most here.

local FIXED, SLIDING, TOKEN, LOG, GCRA, LEAKY = 1, 2, 3, 4, 5, 6

-- How a state is written: the bytes of limit.State.Append, with began and under
-- only where they are not 0.
local LAYOUT, LENGTH = '<I7Bi8i8i8', 32
local SOFT_LAYOUT, SOFT_LENGTH = '<i8i8', 48

local SECOND = 1000000
local PICO = 1000000000000 -- parts of a permit that the finest rate adds in 1 µs
local EXACT = 9007199254740992

-- For how many ms longer than needed a key lives: to expire a bucket too early
-- would be to refill it.
local MARGIN = 1000

local call, pcall, floor = redis.call, redis.pcall, math.floor

-- The instant, by the server's clock: those of the proxies do not matter.
local time = call('TIME')
local now = time[1] * SECOND + time[2]

-- Into how many parts a permit is divided, and how many are added in 1 µs.
local function parts_of(rate)
  local common, rest = rate, PICO
  while rest ~= 0 do common, rest = rest, common % rest end
  return PICO / common, rate / common
end

-- max(0, a - elapsed * gain), without a product beyond 2^53.
local function drained(a, elapsed, gain)
  if a <= 0 or elapsed >= floor((a - 1) / gain) + 1 then return 0 end
  return a - elapsed * gain
end

-- How many µs it takes until so many parts come back: their quotient, rounded up.
local function micros(parts, gain)
  return floor((parts - 1) / gain) + 1
end

-- The unit in which sliding counts the elapsed time of a window.
local function resolution(window)
  if window <= 60 * SECOND then return 1 end
  if window <= 86400 * SECOND then return 1000 end
  return SECOND
end

-- What is ahead of a key that was kept at another rate, in parts of this one and at
-- most 2^53, and b under this limit.
local function carried(a, b, tag, algorithm, at, last, parts, gain, full)
  if algorithm == GCRA then return drained(a, at - last, b), gain end
  local old_parts, old_gain = parts_of(tag)
  a = drained(a, at - last, old_gain)
  local wait = micros(a, old_gain)
  if algorithm == LEAKY then -- up to the same instant, rounded up to 1 µs
    if wait > floor(EXACT / gain) then return EXACT, 0 end
    return wait * gain, 0
  end
  local whole = floor(a / old_parts) -- as many tokens, rounded up to a part
  local rest = a - whole * old_parts
  local common, other = parts, old_parts
  while other ~= 0 do common, other = other, common % other end
  if whole > floor(EXACT / parts) then
    a = EXACT
  else
    a = math.min(EXACT, whole * parts + micros(rest * (parts / common), old_parts / common))
  end
  if a == 0 then return 0, 0 end -- nothing to forgive
  if b == 0 then return a, at + wait end
  if at >= b then return math.min(a, full), 0 end
  return a, math.min(b, at + wait)
end

-- Whether what was read of a key is a state of that kind. The name of a key says its
-- kind, so that anything else was not written here.
local function is_state(raw, algorithm, number)
  if type(raw) == 'table' or #raw < LENGTH then return false end
  local tag, tagged = struct.unpack('<I7B', raw)
  if tagged ~= algorithm or tag ~= number and algorithm ~= TOKEN and algorithm ~= LEAKY then return false end
  return #raw == SOFT_LENGTH or algorithm == LOG and #raw > SOFT_LENGTH or algorithm ~= LOG and #raw == LENGTH
end

-- A state as it is written.
local function packed(algorithm, number, at, a, b, began, under)
  local state = struct.pack(LAYOUT, number, algorithm, at, a, b)
  if began > 0 then state = state .. struct.pack(SOFT_LAYOUT, began, under) end
  return state
end

-- Whether a key of which most may be taken at once is further ahead than it takes to recover
-- when all is taken, or with debt when all comes back that is ahead of it, kept under that tag and b.
local function is_ahead(at, algorithm, most, number, gain, grace, tag, a, b)
  if at <= now then return false end
  local recovery = number
  if algorithm == SLIDING then
    recovery = 2 * number
  elseif algorithm == GCRA then
    recovery = math.max(floor(most * number / gain), floor(a / b)) + 1
  elseif algorithm >= TOKEN and algorithm ~= LOG then
    local parts, pace = parts_of(number)
    local _, kept_pace = parts_of(tag)
    if algorithm == LEAKY then most = most + 1 end
    recovery = math.max(floor(most * parts / pace), floor(a / kept_pace)) + 1
  end
  return at - now > recovery + grace
end

-- A state as it would be if the clock had shown now at its latest instant: see
-- limit.State.back.
local function moved_back(raw)
  local tag, tagged, at, a, b = struct.unpack(LAYOUT, raw)
  local ahead, began, under = at - now, 0, 0
  if #raw >= SOFT_LENGTH then
    began, under = struct.unpack(SOFT_LAYOUT, raw, LENGTH + 1)
    if began > 0 then began, under = began - ahead, under - ahead end
  end
  if tagged == TOKEN and b > 0 then b = b - ahead end
  return packed(tagged, tag, now, a, b, began, under)
end

-- Reads a key that is not a log's now and brings it to now. Inside a key time never
-- runs backwards, unless overshoot and grace are given and it is far ahead. Returns
--
--   at, a, b   as they are then
--   adopted    whether it was kept at another rate, or was far ahead, and is not now
--   x, y       window: where it began, and its resolution (sliding);
--              others: a permit's parts, and how many come back in 1 µs
--   raw        what was read
--   free       parts that are left of the limit; negative if it is exceeded
--
-- and nothing for a key that holds something else.
local function settle(key, algorithm, permits, number, gain, overshoot, grace)
  local raw = pcall('GET', key)
  local tag, _, at, a, b, adopted = number, algorithm, 0, 0, 0, false
  if raw then
    if not is_state(raw, algorithm, number) then return end
    tag, _, at, a, b = struct.unpack(LAYOUT, raw)
    if overshoot and is_ahead(at, algorithm, permits + overshoot, number, gain, grace, tag, a, b) then
      raw, adopted = moved_back(raw), true
      tag, _, at, a, b = struct.unpack(LAYOUT, raw)
    end
  end
  local last = at
  if now > at then at = now end
  if algorithm >= TOKEN then
    local parts, full = number, permits
    if algorithm ~= GCRA then parts, gain = parts_of(number) end
    if algorithm == LEAKY then full = permits + 1 end -- with the place of who goes at once
    full = full * parts
    if not raw then
      if algorithm == GCRA then b = gain end
    elseif tag == number and (algorithm ~= GCRA or b == gain) then
      a = drained(a, at - last, gain)
      if algorithm == TOKEN and b > 0 and at >= b then
        a, b, adopted = math.min(a, drained(full, at - b, gain)), 0, true
      end
    else
      adopted = true
      a, b = carried(a, b, tag, algorithm, at, last, parts, gain, full)
    end
    return at, a, b, adopted, parts, gain, raw, full - a
  end
  -- windows are aligned to the epoch
  local start = floor(at / number) * number
  if last < start - number then
    a, b = 0, 0
  elseif last < start then
    a, b = 0, a
  end
  local unit, free = false, permits - a
  if algorithm == SLIDING then
    unit = resolution(number)
    if b > 0 then
      local units = number / unit
      free = free - floor(b * (units - floor((at - start) / unit)) / units)
    end
  end
  return at, a, b, adopted, start, unit, raw, free
end

-- The earliest elapsed time of a window at which a count of the one before weighs at
-- most weight.
local function fades(count, weight, number, unit)
  if count <= weight then return 0 end
  local units = number / unit
  return (units - floor(((weight + 1) * units - 1) / count)) * unit
end

-- What a state says of the time when the limit was exceeded, and whether overshoot
-- may be used.
local function soften(raw, at, grace)
  local began, under = 0, 0
  if raw and #raw >= SOFT_LENGTH then
    began, under = struct.unpack(SOFT_LAYOUT, raw, LENGTH + 1)
    if began > 0 and at >= under + grace then began, under = 0, 0 end
  end
  return began, under, began == 0 or at < began + grace
end

-- The instant at which a key is within its limit again; free is negative.
local function within(algorithm, permits, number, at, a, b, x, y, free)
  if algorithm == FIXED then return x + number end
  if algorithm == SLIDING then
    if a <= permits then return x + fades(b, permits - a, number, y) end
    return x + number + fades(a, permits, number, y)
  end
  return at + micros(-free, y)
end

-- For how many ms a key lives that is as new at an instant, if overshoot is not used
-- again until then.
local function lifetime(new, began, under, grace)
  if began > 0 and under + grace > new then new = under + grace end
  if new <= now then return MARGIN end
  return floor((new - now + 999) / 1000) + MARGIN
end

-- Writes what a key has consumed. It lives until it is as new, rounded up, and a
-- second more.
local function save(key, algorithm, number, at, a, b, x, y, began, under, grace)
  local new = x -- window
  if algorithm >= TOKEN then
    new = at + micros(a, y)
  elseif algorithm == FIXED then
    if a > 0 then new = x + number end
  elseif a > 0 then
    new = x + number + fades(a, 0, number, y)
  else
    new = x + fades(b, 0, number, y)
  end
  call('PSETEX', key, lifetime(new, began, under, grace), packed(algorithm, number, at, a, b, began, under))
end
