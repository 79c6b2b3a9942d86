-- Takes a lease, keeps it, or gives it back.
--
--   KEYS[1]   the lease
--   ARGV[1]   who asks: a word that nobody else has
--   ARGV[2]   for how many milliseconds; 0 gives it back
--
-- Returns 1 when who asks holds it afterwards, else 0. A lease without an end is
-- none that was taken here: it is given one, so that it does not last for ever.

local holder = redis.call('GET', KEYS[1])

if ARGV[2] == '0' then
  if holder == ARGV[1] then redis.call('DEL', KEYS[1]) end
  return 0
end

if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end

if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('PTTL', KEYS[1]) == -1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
