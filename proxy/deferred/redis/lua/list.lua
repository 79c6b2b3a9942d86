-- Lists entries of a state, of a rule or of all, by seq.
--
--   ARGV[4]   the state, ARGV[5] the rule; empty: all
--   ARGV[6]   after which seq, ARGV[7] at most how many
--
-- Returns for each: id, seq, fields.

local most = tonumber(ARGV[7])
local found = {}

local function gather(rule)
  local before = #found == most and '(' .. num(found[most][2]) or '+inf'
  local ids = call('ZRANGEBYSCORE', K .. 's' .. ARGV[4] .. ':' .. rule, '(' .. ARGV[6], before, 'WITHSCORES', 'LIMIT', 0, most)
  if #ids == 0 then return end
  for i = 1, #ids, 2 do found[#found + 1] = {ids[i], tonumber(ids[i + 1])} end
  table.sort(found, function(a, b) return a[2] < b[2] end)
  for i = #found, most + 1, -1 do found[i] = nil end
end

if ARGV[5] ~= '' then
  gather(ARGV[5])
else
  for _, rule in ipairs(call('SMEMBERS', K .. 'names')) do gather(rule) end
end
for _, f in ipairs(found) do
  f[2] = num(f[2])
  f[3] = call('HMGET', K .. 'e:' .. f[1], unpack(BRIEF))
end
return answer(about[7] or 0, {}, found)
