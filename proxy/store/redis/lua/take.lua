-- Decides a group of counters together. n requests wait for it: as many go as
-- every counter has room for, the first ones, and are charged to every counter.
--
--   KEYS      one key per counter
--   ARGV[1]   n; 0 only reads
--   ARGV[2…]  algorithm, permits, number, cost of each counter
--
-- Returns how many go, the instant, and for each counter the state that its key
-- had before, from which the caller works out the same decisions.

local n = ARGV[1] + 0
local granted = n
local held, reply = {}, { 0, now }

for i = 1, #KEYS do
  local algorithm, permits, number, cost = ARGV[4 * i - 2] + 0, ARGV[4 * i - 1] + 0, ARGV[4 * i] + 0, ARGV[4 * i + 1] + 0
  local at, a, b, adopted, x, y, raw = settle(KEYS[i], algorithm, permits, number)
  reply[i + 2] = raw or ''
  if cost > permits then
    granted = 0
  elseif cost > 0 then
    local free, each = permits - a, cost -- token: in parts
    if algorithm == TOKEN then
      free, each = a, cost * x
    elseif algorithm == SLIDING and b > 0 then
      local units = number / y
      free = free - floor(b * (units - floor((at - x) / y)) / units)
    end
    if free < each * granted then granted = floor(free / each) end
    if granted < 0 then granted = 0 end
  end
  held[i] = { algorithm, permits, number, cost, at, a, b, adopted, x, y }
end

-- Nothing was written so far, and nothing fails from here on.
for i = 1, #KEYS do
  local algorithm, permits, number, cost, at, a, b, adopted, x, y = unpack(held[i], 1, 10)
  local charge = granted * cost
  if charge > 0 or adopted and n > 0 then
    if algorithm == TOKEN then a = a - charge * x else a = a + charge end
    save(KEYS[i], algorithm, permits, number, at, a, b, x, y)
  end
end

reply[1] = granted
return reply
