-- Decides a group of counters together. n requests wait for it: as many go as
-- every counter has room for, the first ones, and are charged to every counter.
--
--   KEYS      one key per counter
--   ARGV[1]   n; 0 only reads
--   ARGV[2…]  algorithm, permits, number, cost of each counter
--
-- Returns how many go, the instant, and for each counter the state that its key
-- had before, from which the caller works out the same decisions.

local n = tonumber(ARGV[1])
local now = clock()
local granted = n
local counters, reply = {}, { 0, now }

for i, key in ipairs(KEYS) do
  local at = 4 * i - 2
  local c = {
    algorithm = tonumber(ARGV[at]),
    permits = tonumber(ARGV[at + 1]),
    number = tonumber(ARGV[at + 2]),
    cost = tonumber(ARGV[at + 3]),
  }
  reply[i + 2] = load(key, c)
  settle(c, now)
  if c.cost > c.permits then
    granted = 0
  elseif c.cost > 0 then
    local free, cost = c.free, c.cost
    if c.algorithm == TOKEN then free, cost = c.a, cost * c.quantum end
    granted = min(granted, max(0, floor(free / cost)))
  end
  counters[i] = c
end

-- Nothing was written so far, and nothing fails from here on.
for i, key in ipairs(KEYS) do
  local c = counters[i]
  local charge = granted * c.cost
  if c.algorithm == TOKEN then
    c.a = c.a - charge * c.quantum
  else
    c.a = c.a + charge
  end
  if charge > 0 or (c.adopted and n > 0) then save(key, c, now) end
end

reply[1] = granted
return reply
