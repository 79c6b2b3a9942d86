-- Gives permits back to keys that are kept under the same limit still: never
-- more than makes a key as new, and to a window that is over nothing.
--
--   KEYS      one key per counter
--   ARGV[1]   the instant at which they were taken; 0: now
--   ARGV[2…]  algorithm, permits, number, permits to give of each counter
--
-- Returns how many keys got something.

local taken = ARGV[1] + 0
if taken == 0 then taken = now end
local given = 0

for i = 1, #KEYS do
  local algorithm, permits, number, amount = ARGV[4 * i - 2] + 0, ARGV[4 * i - 1] + 0, ARGV[4 * i] + 0, ARGV[4 * i + 1] + 0
  local at, a, b, adopted, x, y, raw = settle(KEYS[i], algorithm, permits, number)
  if at and raw and not adopted then
    if algorithm == TOKEN then
      a = math.min(permits * x, a + amount * x)
    elseif taken >= x then
      a = math.max(0, a - amount)
    elseif taken >= x - number then
      b = math.max(0, b - amount)
    end
    save(KEYS[i], algorithm, permits, number, at, a, b, x, y)
    given = given + 1
  end
end

return given
