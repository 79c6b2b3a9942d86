-- Gives a key more than it has now, at most until it is as new; see limit.Limit.Add.
--
--   KEYS[1]   the key
--   ARGV      algorithm, which is not LEAKY, permits, number, gain, permits to give,
--             grace
--
-- Returns 1 if it could use some, 0 if not, and -1 when it holds something else.

local algorithm, permits, number, gain = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
local amount, grace = ARGV[5] + 0, ARGV[6] + 0
local key = KEYS[1]

-- What so many permits are in parts, at most as many as can be given.
local function parts_to_give(parts, most)
  if amount > floor(most / parts) then return most end
  return amount * parts
end

-- The counts of a window and of the one before, where as many fewer are counted: of
-- the one before as few are taken away as make it weigh so much less.
local function less_counted(a, b, at, start, unit)
  local less = math.min(a, amount)
  if not unit or less == amount then return a - less, b, less > 0 end
  local units = number / unit
  local left = units - floor((at - start) / unit)
  local weighed = floor(b * left / units)
  if weighed == 0 then return a - less, b, less > 0 end
  local weight = math.max(0, weighed - (amount - less))
  return a - less, floor(((weight + 1) * units - 1) / left), true
end

-- Takes the oldest of the permits that count out of a log.
local function unlog_oldest()
  local at, total, used, adopted, head, n, base, raw = settle_log(key, number)
  if not at then return -1 end
  if used == 0 and not adopted then return 0 end
  local began, under = 0, 0
  if grace > 0 then began, under = soften(not adopted and raw, LOG, number, at, grace) end
  if amount >= used then
    local state = struct.pack(LOG_LAYOUT, number, LOG, at, 0, 0, 0, began, under)
    call('PSETEX', key, lifetime(at, began, under, grace), state)
    if adopted then return 0 end
    return 1
  end
  local first = find(key, head, n, 2, base + amount + 1) - 1
  local since, last = entry(key, first), entry(key, n - 1)
  call('SETRANGE', key, 0, struct.pack(LOG_LAYOUT, number, LOG, at, total, first, n, began, under))
  call('SETRANGE', key, SOFT_LENGTH + ENTRY_LENGTH * first, struct.pack(ENTRY_LAYOUT, since, base + amount))
  call('PEXPIRE', key, lifetime(last + number, began, under, grace))
  return 1
end

if algorithm == LOG then return unlog_oldest() end

local at, a, b, adopted, x, y, raw = settle(key, algorithm, permits, number, gain)
if not at then return -1 end
if not raw then return 0 end

local changed = false
if algorithm == TOKEN then
  local more = parts_to_give(x, permits * x - a)
  a, changed = a + more, more > 0
elseif algorithm == GCRA then
  local more = parts_to_give(x, a)
  a, changed = a - more, more > 0
else
  a, b, changed = less_counted(a, b, at, x, y)
end
if not changed and not adopted then return 0 end

local began, under = 0, 0
if grace > 0 then began, under = soften(raw, algorithm, number, at, grace) end
save(key, algorithm, permits, number, at, a, b, x, y, began, under, grace)
if changed then return 1 end
return 0
