-- Gives permits back to keys that are kept under the same limit still: never
-- more than makes a key as new, and to a window that is over nothing.
--
--   KEYS      one key per counter
--   ARGV[1]   the instant at which they were taken; 0: now
--   ARGV[2…]  algorithm, permits, number, permits to give of each counter
--
-- Returns how many keys got something.

local now = clock()
local taken = tonumber(ARGV[1])
local given = 0
if taken == 0 then taken = now end

for i, key in ipairs(KEYS) do
  local at = 4 * i - 2
  local c = {
    algorithm = tonumber(ARGV[at]),
    permits = tonumber(ARGV[at + 1]),
    number = tonumber(ARGV[at + 2]),
  }
  local amount = tonumber(ARGV[at + 3])
  load(key, c)
  settle(c, now)
  if c.tagged ~= 0 and not c.adopted then
    if c.algorithm == TOKEN then
      c.a = min(c.full, c.a + amount * c.quantum)
    elseif taken >= c.start then
      c.a = max(0, c.a - amount)
    elseif taken >= c.start - c.number then
      c.b = max(0, c.b - amount)
    end
    save(key, c, now)
    given = given + 1
  end
end

return given
