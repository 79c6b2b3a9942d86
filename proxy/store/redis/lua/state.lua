-- The arithmetic of package limit, for the scripts that follow this text.
--
-- All numbers are integers below 2^53, which Lua's float64 holds exactly; a
-- floor of a quotient of two such numbers is exact too. Instants and windows
-- are microseconds, rates are millionths of a token per second.
--
-- The caller describes a counter by
--
--   algorithm   FIXED, SLIDING or TOKEN
--   permits     the limit; token: the capacity
--   number      the window; token: the rate
--
-- and what its key has consumed is (see limit.State)
--
--   tagged, tag   algorithm and number that it was kept under; tagged 0: new
--   at            the latest instant at which something was taken
--   a             fixed: count; sliding: count of this window; token: parts
--   b             sliding: count of the window before; token: the capacity
--
-- They are passed as plain values: tables and closures are what costs most here.

local FIXED, SLIDING, TOKEN = 1, 2, 3

-- How a state is written: the 32 bytes of limit.State.Put.
local LAYOUT, LENGTH = '<I7Bi8i8i8', 32

local SECOND = 1000000
local PICO = 1000000000000 -- parts of a token that the finest rate adds in 1 µs

local call, pcall, floor = redis.call, redis.pcall, math.floor

-- The instant, by the server's clock: those of the proxies do not matter.
local time = call('TIME')
local now = time[1] * SECOND + time[2]

-- Into how many parts a token is divided, and how many are added in 1 µs.
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
  local common, other = parts, old_parts
  while other ~= 0 do common, other = other, common % other end
  local has = whole * parts + floor(rest * (parts / common) / (old_parts / common))
  if has < full then return has end
  return full
end

-- Reads a key and brings it to now. Inside a key time never runs backwards.
-- Returns
--
--   at, a, b   as they are then
--   adopted    whether it was kept under another limit and is kept under this now
--   x, y       window: where it began, and its resolution (sliding);
--              token: its parts, and how many are added in 1 µs
--   raw        what was read
--
-- and nothing for a key that holds something else.
local function settle(key, algorithm, permits, number)
  local raw = pcall('GET', key)
  local tag, tagged, at, a, b = 0, 0, 0, 0, 0
  if raw then
    if type(raw) == 'table' or #raw ~= LENGTH then return end
    tag, tagged, at, a, b = struct.unpack(LAYOUT, raw)
  end
  local last = at
  if now > at then at = now end
  local same = tagged == algorithm and tag == number
  if algorithm == TOKEN then
    local parts, gain = parts_of(number)
    local full = permits * parts
    if same and b == permits then
      a = refilled(a, full, at - last, gain)
    else
      same = false
      if tagged == TOKEN then a = converted(a, b, tag, at - last, full, parts) else a = full end
    end
    return at, a, permits, not same and raw, parts, gain, raw
  end
  -- windows are aligned to the epoch
  local start = floor(at / number) * number
  if not same or last < start - number then
    a, b = 0, 0
  elseif last < start then
    a, b = 0, a
  end
  return at, a, b, not same and raw, start, algorithm == SLIDING and resolution(number), raw
end

-- Writes what a key has consumed. It lives until it is as new, rounded up, and a
-- second more: to expire a bucket earlier would be to refill it.
local function save(key, algorithm, permits, number, at, a, b, x, y)
  local new = x -- window
  if algorithm == TOKEN then
    new = at
    if a < permits * x then new = at + floor((permits * x - a - 1) / y) + 1 end
  elseif algorithm == FIXED then
    if a > 0 then new = x + number end
  else
    -- a count fades away when less than one permit of it weighs into the window
    local count = b
    if a > 0 then new, count = x + number, a end
    local units = number / y
    if count > 0 then new = new + (units - floor((units - 1) / count)) * y end
  end
  local ttl = 1000
  if new > now then ttl = floor((new - now + 999) / 1000) + 1000 end
  call('PSETEX', key, ttl, struct.pack(LAYOUT, number, algorithm, at, a, b))
end
