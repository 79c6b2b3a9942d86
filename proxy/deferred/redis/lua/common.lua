-- What all scripts of the queue begin with.
--
--   KEYS[1]   <base>about; all other names begin with <base>, too, and so have its hash tag
--   ARGV[1]   a digest of the key with which entries are encrypted; empty: they are not
--   ARGV[2]   the time in µs, in tests; empty: the server's
--   ARGV[3]   when nobody waits for the answer any more, by the clock of the queue; empty: never
--   ARGV[4…]  what the script wants
--
--   about        hash   version, key, seen, shift, seq, runs, open, bytes
--   e:<id>       hash   an entry
--   q:<line>     zset   the ids of a line that are not final, by seq
--   l:<line>     hash   r rule, p parallel, b bytes, v when it was served last
--   due:<rule>   zset   lines by when an entry of them may be claimed
--   rules        zset   rules that are not paused by when a line of them is due
--   paused       set    rules
--   names        set    rules that have entries, or are paused
--   s<n>:<rule>  zset   the ids in state n by seq
--   sizes        hash   <n>:<rule> → bytes
--   clients.n, clients.b   hashes of entries and bytes that are not final
--   clients.f    hash   client → bytes of its final entries; the client may be empty
--   f:<client>   zset   final ids by seq
--   scopes       hash   scope → id
--   leases       zset   ids by when their lease passes
--   forget       zset   final ids by when they are forgotten
--
-- The clock of the queue is the server's, but never goes back: shift is how far it is ahead
-- of the server's since that was set back, or since a replica with another clock took over.
--
-- Fields of an entry: s state, r rule, l line, q seq, p parallel, n client, k it may be sent
-- again, j its line has a share, w due and x expires (clock of the queue), y accepted, u
-- expires and d due (the proxies' clocks), t the token of its lease, o it was claimed as
-- expired, g the token that settled it, a attempts, z bytes without error and result, b those
-- of h, v those of the result, c scope, f fingerprint, la ls le last attempt, rs rb rt result,
-- m what never changes, h head and body, ra head and body of the result.

local VERSION = '1'
local LEASE = 60 * 1000000
local WAITING, DELIVERING, DONE, EXPIRED, UNKNOWN, CANCELLED = 0, 1, 2, 4, 5, 6
local STATES = 7

-- The fields that are returned of an entry; BRIEF without its request and result.
local BRIEF = {'s', 'q', 'y', 'u', 'd', 'a', 'la', 'ls', 'le', 'rs', 'rb', 'rt', 'm'}
local ROW = {'s', 'q', 'y', 'u', 'd', 'a', 'la', 'ls', 'le', 'rs', 'rb', 'rt', 'm', 'h', 'ra'}

local call = redis.call
local K = string.sub(KEYS[1], 1, -6)
local about = call('HMGET', KEYS[1], 'version', 'key', 'seen', 'shift', 'bytes', 'seq', 'runs')

if about[1] and about[1] ~= VERSION then return redis.error_reply('WEIRVERSION ' .. about[1]) end
if about[1] and about[2] ~= ARGV[1] and tonumber(about[5] or '0') > 0 then
  return redis.error_reply('WEIRKEY ' .. (about[2] == '' and 'plain' or 'other'))
end

local function num(n) return string.format('%.0f', n) end

local now = tonumber(ARGV[2])
if not now then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
local shift, seen = tonumber(about[4] or '0'), tonumber(about[3] or '0')
now = now + shift
if now < seen then
  shift = shift + seen - now
  now = seen
end
if ARGV[3] ~= '' and now > tonumber(ARGV[3]) then return {'late', num(now)} end

-- sums are changes of numbers in hashes, written at the end.
local sums = {}
local function add(name, field, n)
  local s = sums[name]
  if not s then s = {}; sums[name] = s end
  s[field] = (s[field] or 0) + n
end
local function value(name, field)
  local s = sums[name]
  return tonumber(call('HGET', K .. name, field) or '0') + (s and s[field] or 0)
end

local NUMBERS = {s = true, q = true, p = true, w = true, x = true, a = true, z = true, b = true, v = true, y = true, u = true, d = true}
local FIELDS = {'s', 'r', 'l', 'q', 'p', 'n', 'k', 'w', 'x', 'y', 'u', 'd', 't', 'o', 'g', 'a', 'z', 'b', 'v', 'c', 'le'}

-- load returns an entry; nil when there is none.
local function load(id)
  local values = call('HMGET', K .. 'e:' .. id, unpack(FIELDS))
  if not values[1] then return nil end
  local e = {id = id}
  for i, f in ipairs(FIELDS) do e[f] = NUMBERS[f] and tonumber(values[i]) or values[i] or '' end
  return e
end

local function set(e, ...)
  local fields = {...}
  for i = 1, #fields, 2 do
    e[fields[i]] = fields[i + 1]
    if type(fields[i + 1]) == 'number' then fields[i + 1] = num(fields[i + 1]) end
  end
  call('HSET', K .. 'e:' .. e.id, unpack(fields))
end

local lines, rules = {}, {} -- to be scheduled at the end; of each line an entry of it

local function size(e) return e.z + #e.le + e.v end

-- count adds n times an entry to all sums.
local function count(e, n)
  local bytes = n * size(e)
  add('sizes', e.s .. ':' .. e.r, bytes)
  add('about', 'bytes', bytes)
  if e.s <= DELIVERING then
    add('about', 'open', n)
    add('l:' .. e.l, 'b', bytes)
    if e.n ~= '' then
      add('clients.n', e.n, n)
      add('clients.b', e.n, bytes)
    end
    lines[e.l] = e
  end
  rules[e.r] = true
end

local function stateName(e, state) return K .. 's' .. state .. ':' .. e.r end

-- move gives an entry that is not counted another state.
local function move(e, state)
  if e.s == state then return end
  call('ZREM', stateName(e, e.s), e.id)
  call('ZADD', stateName(e, state), num(e.q), e.id)
  set(e, 's', state)
end

-- release ends the lease of an entry.
local function release(e)
  call('ZREM', K .. 'leases', e.id)
  call('HDEL', K .. 'e:' .. e.id, 't', 'o')
  e.t, e.o = '', ''
end

-- keep counts an entry as a final one of its client; unkeep undoes that. Those that an earlier
-- version has made final are not counted.
local function keep(e)
  call('ZADD', K .. 'f:' .. e.n, num(e.q), e.id)
  add('clients.f', e.n, size(e))
end
local function unkeep(e)
  if call('ZREM', K .. 'f:' .. e.n, e.id) == 1 then add('clients.f', e.n, -size(e)) end
end

-- drop forgets an entry that is not counted.
local function drop(e)
  unkeep(e)
  call('ZREM', stateName(e, e.s), e.id)
  call('ZREM', K .. 'forget', e.id)
  call('ZREM', K .. 'q:' .. e.l, e.id)
  call('ZREM', K .. 'leases', e.id)
  if e.c ~= '' and call('HGET', K .. 'scopes', e.c) == e.id then call('HDEL', K .. 'scopes', e.c) end
  call('DEL', K .. 'e:' .. e.id)
  rules[e.r] = true
end

-- evict forgets the oldest final entries of e's client, but not e, while these have more bytes
-- than they may.
local evicted, EVICT = 0, 256
local function evict(e, most)
  while evicted < EVICT and value('clients.f', e.n) > most do
    local ids = call('ZRANGE', K .. 'f:' .. e.n, 0, 1)
    local id = ids[1] == e.id and ids[2] or ids[1]
    if id == e.id or not id then -- what the server has lost does not count any more
      add('clients.f', e.n, size(e) - value('clients.f', e.n))
      return
    end
    local oldest = load(id)
    if oldest then
      count(oldest, -1)
      drop(oldest)
    else -- the server has lost it
      call('ZREM', K .. 'f:' .. e.n, id)
    end
    evicted = evicted + 1
  end
end

-- finish has an entry that is not counted leave its line. most is what its client may have in
-- final entries, in bytes.
local function finish(e, state, keepFor, most)
  call('ZREM', K .. 'q:' .. e.l, e.id)
  lines[e.l] = e
  if state == DONE or state == CANCELLED then
    call('HDEL', K .. 'e:' .. e.id, 'h')
    set(e, 'z', e.z - e.b, 'b', 0)
  end
  move(e, state)
  call('ZADD', K .. 'forget', num(now + keepFor), e.id)
  keep(e)
  evict(e, tonumber(most))
end

-- scoped returns the id of the entry that has a scope, and its fields s, l, w, u, f, a and la; nil:
-- there is none, or it is over and was never sent, also not before it was retried.
local function scoped(scope)
  local id = scope ~= '' and call('HGET', K .. 'scopes', scope)
  local x = id and call('HMGET', K .. 'e:' .. id, 's', 'l', 'w', 'u', 'f', 'a', 'la')
  if not x or not x[1] then return nil end
  local state = tonumber(x[1])
  if (state == EXPIRED or state == CANCELLED) and tonumber(x[6]) == 0 and not x[7] then return nil end
  return id, x
end

-- heads returns the entries of a line that may be claimed: the first that are not, of as many
-- as may be delivering. What the server has lost is left out.
local function heads(line, parallel)
  local found, gone = {}, {}
  for _, id in ipairs(call('ZRANGE', K .. 'q:' .. line, 0, parallel - 1)) do
    local x = call('HMGET', K .. 'e:' .. id, 't', 'w', 'x')
    if not x[2] then
      gone[#gone + 1] = id
    elseif not x[1] then
      found[#found + 1] = {id, math.min(tonumber(x[2]), tonumber(x[3]))}
    end
  end
  for _, id in ipairs(gone) do call('ZREM', K .. 'q:' .. line, id) end
  return found
end

-- serve has a line come after others that are due at the same time.
local function serve(line) call('HSET', K .. 'l:' .. line, 'v', string.format('%.1f', now + 0.5)) end

-- parallelOf returns how many entries of e's line may be delivering. What the server has lost of
-- the line is made again: it would be due for ever, or never.
local function parallelOf(e)
  local parallel = call('HGET', K .. 'l:' .. e.l, 'p')
  if not parallel then
    parallel = e.p
    call('HSET', K .. 'l:' .. e.l, 'r', e.r, 'p', parallel)
  end
  return tonumber(parallel)
end

local function scheduleLine(e)
  local line, at = e.l
  for _, head in ipairs(heads(line, parallelOf(e))) do
    if not at or head[2] < at then at = head[2] end
  end
  rules[e.r] = true
  if at then
    local served = tonumber(call('HGET', K .. 'l:' .. line, 'v') or '0')
    call('ZADD', K .. 'due:' .. e.r, string.format('%.1f', math.max(at, served)), line)
  else
    call('ZREM', K .. 'due:' .. e.r, line)
    if call('EXISTS', K .. 'q:' .. line) == 0 then
      call('DEL', K .. 'l:' .. line)
      sums['l:' .. line] = nil
    end
  end
end

local function scheduleRule(rule)
  local head = call('ZRANGE', K .. 'due:' .. rule, 0, 0, 'WITHSCORES')
  if head[1] and call('SISMEMBER', K .. 'paused', rule) == 0 then
    call('ZADD', K .. 'rules', head[2], rule)
  else
    call('ZREM', K .. 'rules', rule)
  end
end

-- stats returns what there is of a rule: its name, whether it is paused, entries of each state,
-- bytes of each state, and when the oldest that is not final was accepted.
local function stats(rule)
  local told, fields, oldest = {rule, call('SISMEMBER', K .. 'paused', rule)}, {}, ''
  for state = 0, STATES - 1 do
    told[#told + 1] = call('ZCARD', K .. 's' .. state .. ':' .. rule)
    fields[#fields + 1] = state .. ':' .. rule
  end
  for _, bytes in ipairs(call('HMGET', K .. 'sizes', unpack(fields))) do told[#told + 1] = bytes or '0' end
  for state = WAITING, DELIVERING do
    local first = call('ZRANGE', K .. 's' .. state .. ':' .. rule, 0, 0)[1]
    local at = first and call('HGET', K .. 'e:' .. first, 'y')
    if at and (oldest == '' or tonumber(at) < tonumber(oldest)) then oldest = at end
  end
  told[#told + 1] = oldest
  return told
end

-- firstRule returns the rule that is due first and when, leaving out those that are fields of
-- except.
local function firstRule(except)
  local i = 0
  while true do
    local rule = call('ZRANGE', K .. 'rules', i, i, 'WITHSCORES')
    if not rule[1] or not except[rule[1]] then return rule end
    i = i + 1
  end
end

-- nextAt is when there is something to claim, but for some rules, to take back or to forget; ''
-- when there is not.
local function nextAt(except)
  local at = ''
  for _, first in ipairs({
    firstRule(except), call('ZRANGE', K .. 'leases', 0, 0, 'WITHSCORES'), call('ZRANGE', K .. 'forget', 0, 0, 'WITHSCORES'),
  }) do
    if first[1] and (at == '' or tonumber(first[2]) < tonumber(at)) then at = first[2] end
  end
  return at
end

-- answer returns what a script answers: the time, its number, when there is more to do, the
-- bytes of all entries, what there is of the rules, what came of the call, and how many final
-- entries it has forgotten for their clients' shares.
local function answer(runs, told, result)
  return {num(now), runs, nextAt({}), call('HGET', KEYS[1], 'bytes') or '0', told, result, evicted}
end

-- commit writes what is left to be written, and returns the answer.
local function commit(result)
  for _, e in pairs(lines) do scheduleLine(e) end
  for rule in pairs(rules) do scheduleRule(rule) end
  for name, s in pairs(sums) do
    for field, n in pairs(s) do
      if n ~= 0 and call('HINCRBY', K .. name, field, num(n)) <= 0 then call('HDEL', K .. name, field) end
    end
  end
  local told = {}
  for rule in pairs(rules) do
    local s = stats(rule)
    told[#told + 1] = s
    local left = s[2]
    for state = 1, STATES do left = left + s[2 + state] end
    call(left > 0 and 'SADD' or 'SREM', K .. 'names', rule)
  end
  call('HSET', KEYS[1], 'version', VERSION, 'key', ARGV[1], 'seen', num(now), 'shift', num(shift))
  return answer(call('HINCRBY', KEYS[1], 'runs', 1), told, result)
end

-- roomy has the script go on when the server is out of memory: it leaves no more than there was.
-- A server refuses commands that may need memory only before the first one that writes.
local function roomy() call('HDEL', KEYS[1], '-') end
