-- Writes what became of claimed entries.
--
--   ARGV[4]   the most bytes of the final entries of a client
--   ARGV[5…]  for each: id, token, whether it was sent before, state, due in µs from now, due,
--             attempts more, last given, at, status, error, result given, status, bytes,
--             truncated, size, head and body, µs to be kept
--
-- Returns for each whether the lease was there.

local PER = 18

roomy()

local function settle(at)
  local e = load(ARGV[at])
  local token, again, to = ARGV[at + 1], ARGV[at + 2] == '1', tonumber(ARGV[at + 3])
  if not e then return 0 end
  if e.t ~= token then return again and e.g == token and 1 or 0 end
  release(e)
  serve(e.l)
  count(e, -1)
  set(e, 'g', token, 'a', e.a + ARGV[at + 6])
  if ARGV[at + 7] == '1' then set(e, 'la', ARGV[at + 8], 'ls', ARGV[at + 9], 'le', ARGV[at + 10]) end
  if ARGV[at + 11] == '1' then
    set(e, 'rs', ARGV[at + 12], 'rb', ARGV[at + 13], 'rt', ARGV[at + 14], 'v', tonumber(ARGV[at + 15]), 'ra', ARGV[at + 16])
  end
  if to == WAITING then
    move(e, WAITING)
    set(e, 'w', now + ARGV[at + 4], 'd', tonumber(ARGV[at + 5]))
  else
    finish(e, to, ARGV[at + 17], ARGV[4])
  end
  count(e, 1)
  return 1
end

local told = {}
for at = 5, #ARGV, PER do told[#told + 1] = settle(at) end
return commit(told)
