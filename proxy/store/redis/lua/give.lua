-- Gives permits back to keys: never more than makes a key as new, and to a window that
-- is over nothing. Of a queue only the last place is given back, if the rate is the
-- same still, as others were told when they leave.
--
--   KEYS      one key per counter
--   ARGV[1]   the instant at which they were taken; -1: now, and only places in queues
--             whose slots are still to come
--   ARGV[2…]  algorithm, permits, number, gain, permits to give, the slot that a
--             place in a queue had (0: none), and grace of each counter
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
    local at, a, b, adopted, x, y, raw = settle(KEYS[i], algorithm, permits, number, gain)
    local ours = at and raw
    if ours and algorithm == LEAKY then
      local before = a - amount * x
      ours = not adopted and slot > 0 and a > 0 and at + micros(before, y) == slot and not (waits and before <= 0)
    end
    if ours then
      if algorithm >= TOKEN then
        a = math.max(0, a - amount * x)
      elseif taken >= x then
        a = math.max(0, a - amount)
      elseif taken >= x - number then
        b = math.max(0, b - amount)
      end
      local began, under = 0, 0
      if #raw == SOFT_LENGTH then began, under = struct.unpack(SOFT_LAYOUT, raw, LENGTH + 1) end
      save(KEYS[i], algorithm, number, at, a, b, x, y, began, under, grace)
      given = given + 1
    end
  end
end

return given
