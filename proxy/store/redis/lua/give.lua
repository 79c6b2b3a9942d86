-- Gives permits back to keys as limit.Limit.Release does: to a window that is over nothing is
-- given back, to a bucket only what it cannot have regained since, and of a queue only the
-- last place, as others were told when they leave. Nothing is given back if the rate has
-- changed since. Unlike there, a log gets back what it was charged, and at ARGV[1] = -1
-- windows and buckets get nothing.
--
--   KEYS      one key per counter
--   ARGV[1]   the instant at which they were taken; -1: now, and only places in queues
--             whose slots are still to come
--   ARGV[2…]  algorithm, permits, number, gain, permits to give, slot, and grace of each
--             counter. slot is that of a place in a queue (0: none); of a bucket it is when
--             the key would have been full without what is given back: before, it would
--             have regained as much (0: not known)
--
-- Returns how many keys got something.

local taken = ARGV[1] + 0
local waits = taken < 0
if waits then taken = now end
local given = 0

for i = 1, #KEYS do
  local arg = 7 * i - 5
  local algorithm, permits, number, gain = ARGV[arg] + 0, ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0
  local amount, slot, grace = ARGV[arg + 4] + 0, ARGV[arg + 5] + 0, ARGV[arg + 6] + 0
  if algorithm == LOG then
    local at, total, _, head, n, base, raw, last = settle_log(KEYS[i], number)
    if at and raw ~= '' then
      local began, under = struct.unpack(SOFT_LAYOUT, raw, LENGTH + 1)
      unlog(KEYS[i], number, taken, amount, total, head, n, base, last, began, under, grace)
      given = given + 1
    end
  else
    local at, a, b, adopted, x, y, raw, free = settle(KEYS[i], algorithm, permits, number, gain)
    local less, fewer = 0, 0 -- of a and of b
    if at and raw and not adopted then
      if algorithm == LEAKY then
        local before = a - amount * x
        if slot > 0 and at + micros(before, y) == slot and not (waits and before <= 0) then less = amount * x end
      elseif waits or taken > at then
        less = 0
      elseif algorithm >= TOKEN then
        if algorithm == GCRA or b == 0 then less = drained(amount * x, math.max(0, at - math.max(taken, slot)), y) end
      elseif taken >= x then
        less = amount
      elseif taken >= x - number and a + free < permits then -- sliding, if the window before still weighs
        fewer = amount
      end
    end
    less, fewer = math.min(a or 0, less), math.min(b or 0, fewer)
    if less > 0 or fewer > 0 then
      local began, under = 0, 0
      if #raw == SOFT_LENGTH then began, under = struct.unpack(SOFT_LAYOUT, raw, LENGTH + 1) end
      save(KEYS[i], algorithm, number, at, a - less, b - fewer, x, y, began, under, grace)
      given = given + 1
    end
  end
end

return given
