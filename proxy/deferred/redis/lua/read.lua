-- Reads one entry.
--
--   ARGV[4]   the id
--
-- Returns its fields and its place in its line, or nothing.

local line = call('HGET', K .. 'e:' .. ARGV[4], 'l')
if not line then return answer(about[7] or 0, {}, {}) end
local rank = call('ZRANK', K .. 'q:' .. line, ARGV[4])
return answer(about[7] or 0, {}, {call('HMGET', K .. 'e:' .. ARGV[4], unpack(ROW)), rank and rank + 1 or 0})
