-- The log of sliding_log: a string of a state (see limit.State), began and under, and
-- entries, oldest first. An entry is an instant, and how many permits were admitted
-- before it since the log was last empty. Those of the entries that have left the
-- window stay until they are half of all, so that the work of a call grows with what
-- it takes, not with the log. In place of b the state has
--
--   head   how many entries had left the window when something was last taken
--   n      how many entries there are

local LOG_LAYOUT = '<I7Bi8i8I4I4i8i8'
local ENTRY_LAYOUT, ENTRY_LENGTH = '<I7I7', 14
local DEAD_MAX = 64 -- entries that have left, which are not worth to be cut off

local function entry(key, i)
  local from = SOFT_LENGTH + ENTRY_LENGTH * i
  return struct.unpack(ENTRY_LAYOUT, call('GETRANGE', key, from, from + ENTRY_LENGTH - 1))
end

-- The first of the entries from one on that is at bound or later (which 1), or before
-- which so many were admitted (which 2); n if none is. It is looked for near from.
local function find(key, from, n, which, bound)
  local low, step = from, 1
  while low + step - 1 < n do
    local at, before = entry(key, low + step - 1)
    if which == 1 and at >= bound or which == 2 and before >= bound then break end
    low, step = low + step, step * 2
  end
  local high = math.min(low + step - 1, n)
  while low < high do
    local middle = floor((low + high) / 2)
    local at, before = entry(key, middle)
    if which == 1 and at >= bound or which == 2 and before >= bound then high = middle else low = middle + 1 end
  end
  return low
end

-- Makes one entry, admitted now, of those that counted when something was last taken.
local function gather(key, number, last, total, head, n, grace)
  local used, text = 0, ''
  head = find(key, head, n, 1, last - number + 1)
  if head < n then
    local _, base = entry(key, head)
    used = total - base
    text = struct.pack(ENTRY_LAYOUT, now, 0)
  end
  local began, under = struct.unpack(SOFT_LAYOUT, call('GETRANGE', key, LENGTH, SOFT_LENGTH - 1))
  if began > 0 then began, under = began - (last - now), under - (last - now) end
  local state = struct.pack(LOG_LAYOUT, number, LOG, now, used, 0, #text / ENTRY_LENGTH, began, under)
  call('PSETEX', key, lifetime(now + number, began, under, grace), state .. text)
end

-- Reads a key as a log and brings it to now. Returns
--
--   at, total   the instant, and how many were admitted since the log was last empty
--   used        how many of these count
--   head, n     the entries that count; those before have left the window
--   base        how many were admitted before these
--   raw         the state without the entries; '' for a new key
--   last        when something was last taken
--
-- and nothing for a key that holds something else. If grace is given, a log that is far ahead
-- counts from now.
local function settle_log(key, number, grace)
  local raw = pcall('GETRANGE', key, 0, SOFT_LENGTH - 1)
  if type(raw) == 'table' then return end
  if raw == '' then return now, 0, 0, 0, 0, 0, '', 0 end
  if not is_state(raw, LOG, number) then return end
  local _, _, last, total, head, n = struct.unpack(LOG_LAYOUT, raw)
  if grace and is_ahead(last, LOG, 0, number, 0, grace) then
    gather(key, number, last, total, head, n, grace)
    return settle_log(key, number)
  end
  local at = math.max(now, last)
  head = find(key, head, n, 1, at - number + 1)
  if head == n then return at, 0, 0, n, n, 0, raw, last end
  local _, base = entry(key, head)
  return at, total, total - base, head, n, base, raw, last
end

-- Writes down that permits, at least one, are taken from a log as settle_log has found
-- it.
local function save_log(key, number, at, total, charge, head, n, last, began, under, grace)
  local ttl = lifetime(at + number, began, under, grace)
  local added = struct.pack(ENTRY_LAYOUT, at, total)
  if head == n then
    added = struct.pack(ENTRY_LAYOUT, at, 0)
    call('PSETEX', key, ttl, struct.pack(LOG_LAYOUT, number, LOG, at, charge, 0, 1, began, under) .. added)
    return
  end
  local again = last == at and entry(key, n - 1) == at
  if again then added = '' else n = n + 1 end
  if head > DEAD_MAX and head > n / 2 then
    local kept = call('GETRANGE', key, SOFT_LENGTH + ENTRY_LENGTH * head, -1)
    local state = struct.pack(LOG_LAYOUT, number, LOG, at, total + charge, 0, n - head, began, under)
    call('PSETEX', key, ttl, state .. kept .. added)
    return
  end
  call('SETRANGE', key, 0, struct.pack(LOG_LAYOUT, number, LOG, at, total + charge, head, n, began, under))
  if not again then call('APPEND', key, added) end
  call('PEXPIRE', key, ttl)
end

-- The state that a log had, with no more entries than the caller needs in order to
-- know when each of some numbers of permits has left the window: wanted, from the
-- smallest on, are so many of those that count.
local function abridged(key, number, total, used, head, n, base, last, began, under, wanted)
  local text = struct.pack(LOG_LAYOUT, number, LOG, last, used, 0, 0, began, under)
  local told, i = 0, head - 1
  for _, permits in ipairs(wanted) do
    if permits > told and permits <= used then
      i = find(key, i + 1, n, 2, base + permits) - 1
      local through = used
      if i + 1 < n then
        local _, before = entry(key, i + 1)
        through = before - base
      end
      text = text .. struct.pack(ENTRY_LAYOUT, entry(key, i), told)
      told = through
    end
  end
  if told < used then text = text .. struct.pack(ENTRY_LAYOUT, entry(key, n - 1), told) end
  return text
end

-- Takes permits away that were admitted not later than an instant, the latest first.
local function unlog(key, number, taken, amount, total, head, n, base, last, began, under, grace)
  local entries, above = {}, total
  for i = n - 1, head, -1 do
    local at, before = entry(key, i)
    local had = above - before
    above = before
    if at <= taken and amount > 0 then
      local less = math.min(amount, had)
      amount, had = amount - less, had - less
    end
    if had > 0 then table.insert(entries, 1, { at, had }) end
  end
  local text, sum = '', 0
  for i = 1, #entries do
    text = text .. struct.pack(ENTRY_LAYOUT, entries[i][1], sum)
    sum = sum + entries[i][2]
  end
  local new = last
  if #entries > 0 then new = entries[#entries][1] + number end
  local state = struct.pack(LOG_LAYOUT, number, LOG, last, sum, 0, #entries, began, under)
  call('PSETEX', key, lifetime(new, began, under, grace), state .. text)
end
