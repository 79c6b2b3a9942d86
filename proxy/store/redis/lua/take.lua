-- Decides groups of counters, each group together. n requests wait for a group: as
-- many go as every counter of it has room for, the first ones, and are charged to
-- every counter.
--
--   KEYS   the keys of all groups in turn
--   ARGV   for each group the number of its counters and n, where 0 only reads;
--          then algorithm, permits, number, cost of each counter
--
-- Returns the instant, and for each group how many go, or -1 when a key of it
-- holds something else, and the state that each of its keys had before. From
-- these the caller works out the same decisions.

local reply, size = { now }, 1

-- How many of n asks go by one counter that was settled.
local function room(n, algorithm, permits, number, cost, at, a, b, x, y)
  if cost == 0 then return n end
  if cost > permits then return 0 end
  local free = permits - a
  if algorithm == TOKEN then
    free, cost = a, cost * x -- in parts
  elseif algorithm == SLIDING and b > 0 then
    local units = number / y
    free = free - floor(b * (units - floor((at - x) / y)) / units)
  end
  if free >= cost * n then return n end
  if free < cost then return 0 end
  return floor(free / cost)
end

-- Decides the group whose keys and arguments begin there, and returns how many go.
local function decide(n, count, key, arg)
  local granted, held = n, {}
  for i = 1, count do
    local algorithm, permits, number, cost = ARGV[arg] + 0, ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0
    local at, a, b, adopted, x, y, raw = settle(KEYS[key + i], algorithm, permits, number)
    if not at then return -1 end
    reply[size + i] = raw or ''
    granted = room(granted, algorithm, permits, number, cost, at, a, b, x, y)
    held[i] = { algorithm, permits, number, cost, at, a, b, adopted, x, y }
    arg = arg + 4
  end
  -- Nothing was written of this group so far, and nothing fails from here on.
  for i = 1, count do
    local algorithm, permits, number, cost, at, a, b, adopted, x, y = unpack(held[i], 1, 10)
    local charge = granted * cost
    if charge > 0 or adopted and n > 0 then
      if algorithm == TOKEN then a = a - charge * x else a = a + charge end
      save(KEYS[key + i], algorithm, permits, number, at, a, b, x, y)
    end
  end
  return granted
end

local key, arg = 0, 1
while arg < #ARGV do
  local count, n = ARGV[arg] + 0, ARGV[arg + 1] + 0
  size = size + 1
  for i = 0, count do reply[size + i] = '' end
  reply[size] = decide(n, count, key, arg + 2)
  size, key, arg = size + count, key + count, arg + 2 + 4 * count
end

return reply
