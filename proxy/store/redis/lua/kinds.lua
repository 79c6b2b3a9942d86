-- Notes under which kinds of limits keys are counted, so that an edit of a key finds
-- all of its names.
--
--   KEYS[1]   the kinds that are known, each followed by a space
--   ARGV[1]   how many are kept: those that became known last
--   ARGV[2…]  kinds
--
-- Returns how many were not known.

local known = redis.call('GET', KEYS[1]) or ''
local new = 0
for i = 2, #ARGV do
  if not string.find(' ' .. known, ' ' .. ARGV[i] .. ' ', 1, true) then
    known, new = known .. ARGV[i] .. ' ', new + 1
  end
end
if new > 0 then
  local _, count = string.gsub(known, ' ', '')
  for _ = ARGV[1] + 1, count do known = string.gsub(known, '^[^ ]* ', '') end
  redis.call('SET', KEYS[1], known)
end
return new
