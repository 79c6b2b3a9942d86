-- The arithmetic of package limit, for the scripts that follow this text.
--
-- All numbers are integers below 2^53, which Lua's float64 holds exactly; a
-- floor of a quotient of two such numbers is exact too. Instants and windows
-- are microseconds, rates are millionths of a token per second.
--
-- A counter is a table of what the caller says
--
--   algorithm   FIXED, SLIDING or TOKEN
--   permits     the limit; token: the capacity
--   number      the window; token: the rate
--   cost        of one request
--
-- and of what its key has consumed (see limit.State):
--
--   tagged, tag   algorithm and number that it was kept under; tagged 0: new
--   at            the latest instant at which something was taken
--   a             fixed: count; sliding: count of this window; token: parts
--   b             sliding: count of the window before; token: the capacity

local FIXED, SLIDING, TOKEN = 1, 2, 3

-- How a state is written: the 32 bytes of limit.State.Put.
local LAYOUT, LENGTH = '<I7Bi8i8i8', 32

local SECOND = 1000000
local PICO = 1000000000000 -- parts of a token that the finest rate adds in 1 µs

local floor, max, min = math.floor, math.max, math.min

-- The server's clock, so that the clocks of proxies do not matter.
local function clock()
  local t = redis.call('TIME')
  return t[1] * SECOND + t[2]
end

local function gcd(a, b)
  while b ~= 0 do a, b = b, a % b end
  return a
end

-- Into how many parts a token is divided, and how many are added in 1 µs.
local function parts_of(rate)
  local common = gcd(rate, PICO)
  return PICO / common, rate / common
end

-- min(full, parts + elapsed * gain), without a product beyond 2^53.
local function refilled(parts, full, elapsed, gain)
  local missing = full - parts
  if missing <= 0 or elapsed >= floor((missing - 1) / gain) + 1 then return full end
  return parts + elapsed * gain
end

-- Parts of which a token has `from`, in parts of which it has `to`.
local function rescaled(parts, from, to)
  local common = gcd(from, to)
  local whole = floor(parts / from)
  local rest = parts - whole * from
  return whole * to + floor(rest * (to / common) / (from / common))
end

-- The unit in which sliding counts the elapsed time of a window.
local function resolution(window)
  if window <= 60 * SECOND then return 1 end
  if window <= 86400 * SECOND then return 1000 end
  return SECOND
end

-- Reads what a key has consumed. A key that holds something else is an error,
-- raised before anything is written.
local function load(key, c)
  local raw = redis.call('GET', key)
  if not raw then
    c.tagged, c.tag, c.at, c.a, c.b = 0, 0, 0, 0, 0
    return ''
  end
  if #raw ~= LENGTH then
    error({ err = 'WRONGTYPE the key ' .. key .. ' holds no state of a limit' })
  end
  c.tag, c.tagged, c.at, c.a, c.b = struct.unpack(LAYOUT, raw)
  return raw
end

local function settle_token(c, now)
  c.quantum, c.gain = parts_of(c.number)
  c.full = c.permits * c.quantum
  if c.tagged == TOKEN and c.tag == c.number and c.b == c.permits then
    c.a = refilled(c.a, c.full, now - c.at, c.gain)
    return
  end
  -- A bucket kept under another capacity or rate keeps its tokens, but one that
  -- is full by now stays full; what was no bucket starts full.
  c.adopted = c.tagged ~= 0
  local parts = c.full
  if c.tagged == TOKEN then
    local quantum, gain = parts_of(c.tag)
    local full = c.b * quantum
    local had = refilled(c.a, full, now - c.at, gain)
    if had < full then parts = min(rescaled(had, quantum, c.quantum), c.full) end
  end
  c.a, c.b = parts, c.permits
end

local function settle_window(c, now)
  local window = c.number
  c.start = floor(now / window) * window
  if c.tagged ~= c.algorithm or c.tag ~= window then
    c.adopted = c.tagged ~= 0
    c.a, c.b = 0, 0
  elseif c.at < c.start - window then
    c.a, c.b = 0, 0
  elseif c.at < c.start then
    c.a, c.b = 0, c.a
  end
  c.free = c.permits - c.a
  if c.algorithm == SLIDING then
    c.unit = resolution(window)
    c.units = window / c.unit
    if c.b ~= 0 then
      local elapsed = floor((now - c.start) / c.unit)
      c.free = c.free - floor(c.b * (c.units - elapsed) / c.units)
    end
  end
end

-- Brings a counter to now. Inside a key time never runs backwards.
local function settle(c, now)
  now = max(now, c.at)
  if c.algorithm == TOKEN then settle_token(c, now) else settle_window(c, now) end
  c.at = now
end

-- The first instant at which the key is as new if nothing more is taken.
local function new_at(c)
  if c.algorithm == TOKEN then
    if c.full <= c.a then return c.at end
    return c.at + floor((c.full - c.a - 1) / c.gain) + 1
  end
  if c.algorithm == FIXED then
    if c.a == 0 then return c.start end
    return c.start + c.number
  end
  -- a count fades away when less than one permit of it weighs into the window
  local start, count = c.start, c.b
  if c.a > 0 then start, count = c.start + c.number, c.a end
  if count == 0 then return start end
  return start + (c.units - floor((c.units - 1) / count)) * c.unit
end

-- Writes a counter. The key lives until it is as new, rounded up, and a second
-- more: to expire a bucket earlier would be to refill it.
local function save(key, c, now)
  local ttl = max(0, floor((new_at(c) - now + 999) / 1000)) + 1000
  local raw = struct.pack(LAYOUT, c.number, c.algorithm, c.at, c.a, c.b)
  redis.call('SET', key, raw, 'PX', ttl)
end
