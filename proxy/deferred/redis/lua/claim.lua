-- Takes back entries whose lease has passed, forgets what is over, and claims what is due.
--
--   ARGV[4]   at most how many; ARGV[5] the most bytes, but at least one entry
--   ARGV[6]   the token of the leases
--   ARGV[7]   the time of the proxy, ARGV[8] how long what was cut off is kept, in µs
--   ARGV[9]   the most bytes of the final entries of a client
--   ARGV[10]  how many tokens follow, of claims whose answers never came: their entries go back
--             to their lines; behind them the rules that are left out
--
-- Returns when there is more to do but for these rules; for each entry claimed: id, whether it has
-- expired, its fields, its rule; and the rule of each entry that has become unknown.

local SWEEP = 256
local CUT_OFF = 'the delivery was cut off'

roomy()

local gone = {}

local function cutOff(e)
  if e.o == '1' then
    release(e)
    lines[e.l] = e
    return
  end
  release(e)
  count(e, -1)
  set(e, 'la', ARGV[7], 'ls', 0, 'le', CUT_OFF)
  if e.k == '1' then
    move(e, WAITING)
    set(e, 'a', e.a + 1, 'w', now, 'd', tonumber(ARGV[7]))
  else
    finish(e, UNKNOWN, ARGV[8], ARGV[9])
    gone[#gone + 1] = e.r
  end
  count(e, 1)
end

local function giveBack(e)
  local expired = e.o == '1'
  release(e)
  count(e, -1)
  if not expired then move(e, WAITING) end
  count(e, 1)
end

local lost, except = {}, {}
local tokens = tonumber(ARGV[10])
for i = 11, 10 + tokens do lost[ARGV[i]] = true end
for i = 11 + tokens, #ARGV do except[ARGV[i]] = true end
if next(lost) then
  for _, id in ipairs(call('ZRANGE', K .. 'leases', 0, -1)) do
    local e = load(id)
    if e and lost[e.t] then giveBack(e) end
  end
end

for _, id in ipairs(call('ZRANGEBYSCORE', K .. 'leases', '-inf', num(now), 'LIMIT', 0, SWEEP)) do
  local e = load(id)
  if e then cutOff(e) else call('ZREM', K .. 'leases', id) end
end

for _, id in ipairs(call('ZRANGEBYSCORE', K .. 'forget', '-inf', num(now), 'LIMIT', 0, SWEEP)) do
  local e = load(id)
  if e then
    count(e, -1)
    drop(e)
  else
    call('ZREM', K .. 'forget', id)
  end
end

-- What was taken back may be due.
for _, e in pairs(lines) do scheduleLine(e) end
for rule in pairs(rules) do scheduleRule(rule) end

local claimed, bytes = {}, 0

-- take claims the entry of a line that is due.
local function take(rule, line)
  local any = {l = line, r = rule, p = '1'}
  for _, head in ipairs(heads(line, parallelOf(any))) do
    if head[2] <= now then
      local e = load(head[1])
      if e.x <= now then
        set(e, 't', ARGV[6], 'o', '1')
      else
        count(e, -1)
        move(e, DELIVERING)
        set(e, 't', ARGV[6])
        count(e, 1)
      end
      call('ZADD', K .. 'leases', num(now + LEASE), e.id)
      local x = call('HMGET', K .. 'e:' .. e.id, unpack(ROW))
      claimed[#claimed + 1] = {e.id, e.o, x, e.r}
      bytes = bytes + size(e)
      break
    end
  end
  serve(line)
  scheduleLine(any)
  scheduleRule(rule)
end

while #claimed < tonumber(ARGV[4]) and (bytes == 0 or bytes < tonumber(ARGV[5])) do
  local rule = firstRule(except)
  if not rule[1] or tonumber(rule[2]) >= now + 1 then break end
  local line = call('ZRANGE', K .. 'due:' .. rule[1], 0, 0)[1]
  if not line then
    call('ZREM', K .. 'rules', rule[1])
  else
    take(rule[1], line)
  end
end

local told = commit(0)
told[6] = {nextAt(except), claimed, gone}
return told
