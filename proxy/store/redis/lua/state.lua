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
--   a             fixed: count; sliding: count of this window; token: parts;
--                 gcra, leaky: parts ahead; log: count
--   b             sliding: count of the window before; token: the capacity
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

-- min(full, a + elapsed * gain), without a product beyond 2^53.
local function refilled(a, full, elapsed, gain)
  if a >= full or elapsed >= floor((full - a - 1) / gain) + 1 then return full end
  return a + elapsed * gain
end

-- max(0, a - elapsed * gain), likewise.
local function drained(a, elapsed, gain)
  if a <= 0 or elapsed >= floor((a - 1) / gain) + 1 then return 0 end
  return a - elapsed * gain
end

-- How many µs it takes until so many parts are added.
local function micros(parts, gain)
  return floor((parts - 1) / gain) + 1
end

-- The unit in which sliding counts the elapsed time of a window.
local function resolution(window)
  if window <= 60 * SECOND then return 1 end
  if window <= 86400 * SECOND then return 1000 end
  return SECOND
end

-- What a bucket of another capacity or rate holds in parts of this one: all its
-- tokens that fit, rounded down to a part, and a bucket that is full stays full.
local function converted(a, capacity, rate, elapsed, full, parts)
  local old_parts, old_gain = parts_of(rate)
  local had = refilled(a, capacity * old_parts, elapsed, old_gain)
  if had == capacity * old_parts then return full end -- as it was full
  local whole = floor(had / old_parts)
  local rest = had - whole * old_parts
  if whole < -floor((EXACT - full) / parts) then return full - EXACT end
  local common, other = parts, old_parts
  while other ~= 0 do common, other = other, common % other end
  local has = whole * parts + floor(rest * (parts / common) / (old_parts / common))
  if has < full then return has end
  return full
end

-- How far a queue is ahead in parts of this rate that was kept at another: up to
-- the same instant, rounded up to 1 µs.
local function requeued(a, rate, elapsed, gain)
  local _, old_gain = parts_of(rate)
  local ahead = micros(drained(a, elapsed, old_gain), old_gain)
  if ahead > floor(EXACT / gain) then return EXACT end
  return ahead * gain
end

-- Whether what was read of a key is a state.
local function is_state(raw)
  if type(raw) == 'table' then return false end
  if #raw == LENGTH then return string.byte(raw, 8) ~= LOG end
  return #raw == SOFT_LENGTH or #raw > SOFT_LENGTH and string.byte(raw, 8) == LOG
end

-- Reads a key that is not a log's now and brings it to now. Inside a key time never
-- runs backwards. Returns
--
--   at, a, b   as they are then
--   adopted    whether it was kept under another limit and is kept under this now
--   x, y       window: where it began, and its resolution (sliding);
--              others: a permit's parts, and how many are added in 1 µs
--   raw        what was read
--   free       parts that are left of the limit; negative if it is exceeded
--
-- and nothing for a key that holds something else.
local function settle(key, algorithm, permits, number, gain)
  local raw = pcall('GET', key)
  local tag, tagged, at, a, b = 0, 0, 0, 0, 0
  if raw then
    if not is_state(raw) then return end
    tag, tagged, at, a, b = struct.unpack(LAYOUT, raw)
  end
  local last = at
  if now > at then at = now end
  local same = tagged == algorithm and tag == number
  if algorithm == TOKEN then
    local parts
    parts, gain = parts_of(number)
    local full = permits * parts
    if same and b == permits then
      a = refilled(a, full, at - last, gain)
    else
      same = false
      if tagged == TOKEN then a = converted(a, b, tag, at - last, full, parts) else a = full end
    end
    return at, a, permits, not same and raw, parts, gain, raw, a
  end
  if algorithm == GCRA or algorithm == LEAKY then
    local parts, places = number, permits
    if algorithm == LEAKY then
      parts, gain = parts_of(number)
      places = permits + 1 -- that of who goes at once
    end
    if same then
      a = drained(a, at - last, gain)
    elseif algorithm == LEAKY and tagged == LEAKY then
      a = requeued(a, tag, at - last, gain)
    else
      a = 0
    end
    return at, a, 0, not same and raw, parts, gain, raw, places * parts - a
  end
  -- windows are aligned to the epoch
  local start = floor(at / number) * number
  if not same or last < start - number then
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
  return at, a, b, not same and raw, start, unit, raw, free
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
local function soften(raw, algorithm, number, at, grace)
  local began, under = 0, 0
  if raw and #raw >= SOFT_LENGTH then
    local tag, tagged = struct.unpack('<I7B', raw)
    if tagged == algorithm and (tag == number or algorithm == TOKEN or algorithm == LEAKY) then
      began, under = struct.unpack(SOFT_LAYOUT, raw, LENGTH + 1)
      if began > 0 and at >= under + grace then began, under = 0, 0 end
    end
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
local function save(key, algorithm, permits, number, at, a, b, x, y, began, under, grace)
  local new = x -- window
  if algorithm == TOKEN then
    new = at
    if a < permits * x then new = at + micros(permits * x - a, y) end
  elseif algorithm == GCRA or algorithm == LEAKY then
    new = at + micros(a, y)
  elseif algorithm == FIXED then
    if a > 0 then new = x + number end
  elseif a > 0 then
    new = x + number + fades(a, 0, number, y)
  else
    new = x + fades(b, 0, number, y)
  end
  local state = struct.pack(LAYOUT, number, algorithm, at, a, b)
  if began > 0 then state = state .. struct.pack(SOFT_LAYOUT, began, under) end
  call('PSETEX', key, lifetime(new, began, under, grace), state)
end
