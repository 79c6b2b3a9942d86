-- Stores entries.
--
--   ARGV[4…7]   the most entries, bytes, and what one client or line may have of both
--   ARGV[8…]    for each entry: id, rule, line, parallel, client, may be sent again, line has a
--               share, due and expires in µs from now, accepted, expires, due, size, bytes of h,
--               scope, fingerprint, longest line, follows another, m, h
--
-- Returns for each: outcome, bound, id, state, position, µs until it is due, expires.

local ACCEPTED, DUPLICATE, CONFLICT, FULL, TAKEN = 0, 1, 2, 4, 5
local ENTRIES, BYTES, LINE, SHARE = 1, 2, 3, 4
local PER = 20

local entriesMax, bytesMax, shareEntries, shareBytes = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local seq = tonumber(about[6] or '0')

local function exceeded(entries, bytes) return entries > 0 and (entries >= shareEntries or bytes > shareBytes) end

-- bound returns the first bound that an entry would exceed.
local function bound(e, perKey, follows)
  if not follows then
    if value('about', 'open') >= entriesMax then return ENTRIES end
    if value('about', 'bytes') + e.z > bytesMax then return BYTES end
  end
  if e.n ~= '' and exceeded(value('clients.n', e.n), value('clients.b', e.n) + value('clients.f', e.n) + e.z) then return SHARE end
  local n = call('ZCARD', K .. 'q:' .. e.l)
  if perKey > 0 and n >= perKey then return LINE end
  if e.j == '1' and exceeded(n, value('l:' .. e.l, 'b') + e.z) then return SHARE end
  return 0
end

-- same returns what is told about an entry that has e's scope already; nil: there is none.
local function same(e)
  local id, x = scoped(e.c)
  if not id then return nil end
  local rank = call('ZRANK', K .. 'q:' .. x[2], id)
  return {x[5] == e.f and DUPLICATE or CONFLICT, 0, id, tonumber(x[1]), rank and rank + 1 or 0, num(tonumber(x[3]) - now), x[4]}
end

local function dueOf(line)
  local first = call('ZRANGE', K .. 'q:' .. line, 0, 0)[1]
  local x = first and call('HMGET', K .. 'e:' .. first, 'w', 'x')
  return x and x[1] and num(math.min(tonumber(x[1]), tonumber(x[2])) - now) or ''
end

local function put(at)
  local e = {
    id = ARGV[at], s = WAITING, r = ARGV[at + 1], l = ARGV[at + 2], p = ARGV[at + 3], n = ARGV[at + 4], k = ARGV[at + 5], j = ARGV[at + 6],
    y = ARGV[at + 9], u = ARGV[at + 10], d = ARGV[at + 11], z = tonumber(ARGV[at + 12]), b = ARGV[at + 13],
    c = ARGV[at + 14], f = ARGV[at + 15], le = '', v = 0,
  }
  if call('EXISTS', K .. 'e:' .. e.id) == 1 then return {TAKEN, 0, e.id, 0, 0, '', e.u} end
  local known = same(e)
  if known then return known end
  local full = bound(e, tonumber(ARGV[at + 16]), ARGV[at + 17] == '1')
  if full ~= 0 then return {FULL, full, e.id, 0, 0, dueOf(e.l), e.u} end
  seq = seq + 1
  call('HSET', K .. 'e:' .. e.id, 's', WAITING, 'r', e.r, 'l', e.l, 'q', num(seq), 'p', e.p, 'n', e.n, 'k', e.k,
    'w', num(now + ARGV[at + 7]), 'x', num(now + ARGV[at + 8]), 'y', e.y, 'u', e.u, 'd', e.d, 'a', 0, 'z', e.z, 'b', e.b, 'v', 0,
    'c', e.c, 'f', e.f, 'm', ARGV[at + 18], 'h', ARGV[at + 19])
  call('ZADD', stateName(e, WAITING), num(seq), e.id)
  call('ZADD', K .. 'q:' .. e.l, num(seq), e.id)
  call('HSET', K .. 'l:' .. e.l, 'r', e.r, 'p', e.p)
  if e.c ~= '' then call('HSET', K .. 'scopes', e.c, e.id) end
  count(e, 1)
  return {ACCEPTED, 0, e.id, WAITING, call('ZCARD', K .. 'q:' .. e.l), num(ARGV[at + 7]), e.u}
end

local told = {}
for at = 8, #ARGV, PER do told[#told + 1] = put(at) end
call('HSET', KEYS[1], 'seq', num(seq))
return commit(told)
