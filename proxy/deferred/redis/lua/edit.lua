-- Changes entries.
--
--   ARGV[4]   0 cancel, 1 retry, 2 drop, 3 withdraw: forget it if nobody has claimed it
--   ARGV[5]   the time of the proxy, ARGV[6] how long what is cancelled is kept, in µs
--   ARGV[7]   size of head and body of the result of what is cancelled, ARGV[8] these; empty: none
--   ARGV[9]   the most bytes of the final entries of a client
--   ARGV[10…] ids
--
-- Returns for each: 0 it is changed, 1 there is none, 2 its state does not allow that, 3 its request
-- no longer exists.

local CHANGED, NOT_FOUND, STATE, LOST = 0, 1, 2, 3

roomy()

local seq = tonumber(about[6] or '0')

local function cancel(e)
  count(e, -1)
  call('HDEL', K .. 'e:' .. e.id, 'rs', 'rb', 'rt', 'ra')
  e.v = 0
  if ARGV[8] ~= '' then set(e, 'rs', 0, 'rb', 0, 'rt', 0, 'v', tonumber(ARGV[7]), 'ra', ARGV[8]) end
  finish(e, CANCELLED, ARGV[6], ARGV[9])
  count(e, 1)
  return CHANGED
end

local function retry(e)
  if call('HEXISTS', K .. 'e:' .. e.id, 'h') == 0 then return LOST end
  if e.c ~= '' and call('HGET', K .. 'scopes', e.c) ~= e.id then return STATE end -- it was stored anew
  local at = tonumber(ARGV[5])
  local waits = e.u - e.y
  count(e, -1)
  unkeep(e)
  call('ZREM', K .. 'forget', e.id)
  call('ZREM', stateName(e, e.s), e.id)
  call('HDEL', K .. 'e:' .. e.id, 'rs', 'rb', 'rt', 'ra')
  seq = seq + 1
  set(e, 's', WAITING, 'q', seq, 'y', at, 'd', at, 'u', at + waits, 'w', now, 'x', now + waits, 'a', 0, 'v', 0)
  call('ZADD', stateName(e, WAITING), num(seq), e.id)
  call('ZADD', K .. 'q:' .. e.l, num(seq), e.id)
  call('HSET', K .. 'l:' .. e.l, 'r', e.r, 'p', num(e.p))
  count(e, 1)
  return CHANGED
end

local function edit(action, id)
  local e = load(id)
  if not e then return NOT_FOUND end
  local open = e.s <= DELIVERING
  local idle = e.s == WAITING and e.t == ''
  if action == 0 and idle then
    return cancel(e)
  elseif action == 1 and e.s > DONE and e.s < CANCELLED then
    return retry(e)
  elseif action == 2 and not open or action == 3 and idle then
    count(e, -1)
    drop(e)
    return CHANGED
  end
  return STATE
end

local told = {}
for at = 10, #ARGV do told[#told + 1] = edit(tonumber(ARGV[4]), ARGV[at]) end
call('HSET', KEYS[1], 'seq', num(seq))
return commit(told)
