-- Gives a key more than it has now under every kind of limits, at most until it is as
-- new; see limit.State.Add. What is kept lives as long as before, which is longer than
-- it needs then.
--
--   KEYS      the names of the key, one for each kind
--   ARGV[1]   permits to give
--
-- Returns under how many kinds it could use some, and -1 when a name holds something
-- else.

local amount = ARGV[1] + 0
local changed, foreign = 0, false

local function rewrite(key, state)
  call('PSETEX', key, math.max(1, call('PTTL', key)), state)
end

-- The counts of a window and of the one before, where as many fewer are counted: of
-- the one before as few are taken away as make it weigh so much less.
local function less_counted(number, a, b, at, start, unit)
  local less = math.min(a, amount)
  if not unit or less == amount then return a - less, b, less > 0 end
  local units = number / unit
  local left = units - floor((at - start) / unit)
  local weighed = floor(b * left / units)
  if weighed == 0 then return a - less, b, less > 0 end
  local weight = math.max(0, weighed - (amount - less))
  return a - less, floor(((weight + 1) * units - 1) / left), true
end

-- Takes the oldest of the permits that count out of a log, and reports whether there
-- were some.
local function unlog_oldest(key, number, began, under)
  local at, total, used, head, n, base = settle_log(key, number)
  if used == 0 then return false end
  if amount >= used then
    rewrite(key, struct.pack(LOG_LAYOUT, number, LOG, at, 0, 0, 0, began, under))
    return true
  end
  local first = find(key, head, n, 2, base + amount + 1) - 1
  local since = entry(key, first)
  call('SETRANGE', key, 0, struct.pack(LOG_LAYOUT, number, LOG, at, total, first, n, began, under))
  call('SETRANGE', key, SOFT_LENGTH + ENTRY_LENGTH * first, struct.pack(ENTRY_LAYOUT, since, base + amount))
  return true
end

-- Gives to a key that was kept as that, and reports whether it could use some.
local function give(key, algorithm, number, pace, began, under)
  if algorithm == LEAKY then return false end
  if algorithm == LOG then return unlog_oldest(key, number, began, under) end
  local at, a, b, _, x, y = settle(key, algorithm, EXACT, number, pace) -- of token nothing is cut
  local could
  if algorithm >= TOKEN then
    local more = a
    if amount <= floor(a / x) then more = amount * x end
    a, b, could = a - more, pace, more > 0
  else
    a, b, could = less_counted(number, a, b, at, x, y)
  end
  if could then rewrite(key, packed(algorithm, number, at, a, b, began, under)) end
  return could
end

for _, key in ipairs(KEYS) do
  local raw = pcall('GET', key)
  if raw then
    local number, algorithm, pace, began, under, _ = 0, 0, 0, 0, 0
    if type(raw) ~= 'table' and #raw >= LENGTH then
      number, algorithm, _, _, pace = struct.unpack(LAYOUT, raw)
    end
    if algorithm >= FIXED and algorithm <= LEAKY and is_state(raw, algorithm, number) then
      if #raw >= SOFT_LENGTH then began, under = struct.unpack(SOFT_LAYOUT, raw, LENGTH + 1) end
      if give(key, algorithm, number, pace, began, under) then changed = changed + 1 end
    else
      foreign = true
    end
  end
end

if foreign then return -1 end
return changed
