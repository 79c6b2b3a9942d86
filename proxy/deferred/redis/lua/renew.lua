-- Extends leases.
--
--   ARGV[4…]  ids and tokens
--
-- Returns for each whether it was there.

roomy()

local told = {}
for at = 4, #ARGV, 2 do
  local there = call('HGET', K .. 'e:' .. ARGV[at], 't') == ARGV[at + 1]
  if there then call('ZADD', K .. 'leases', num(now + LEASE), ARGV[at]) end
  told[#told + 1] = there and 1 or 0
end
return commit(told)
