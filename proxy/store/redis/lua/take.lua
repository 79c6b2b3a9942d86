-- Decides groups of counters, each group together. n requests wait for a group: as
-- many go as every counter of it has room for, the first ones, and are charged to
-- every counter.
--
--   KEYS   the keys of all groups in turn
--   ARGV   for each group the number of its counters and n, where 0 only reads;
--          then algorithm, permits, number, cost of each counter; where MORE is added
--          to the algorithm also gain, reserve, longest delay, overshoot, grace, and
--          where LATE is added to that also debt and n: all of these n are charged,
--          whether they go or not, until so many permits are taken in all
--
-- Returns the instant, and for each group how many go, or -1 when a key of it
-- holds something else, and the state that each of its keys had before. From
-- these the caller works out the same decisions.

local MORE = 16 -- LATE is twice that; locals that functions use cost every call

-- Where what was found out of a counter is held until its group is decided: of all, of
-- those that are not a log's, and of a log. (Names as keys would cost a twentieth more; those with
-- debt, which are few, have the keys debt and all.)
local ALGORITHM, PERMITS, NUMBER, COST, AT, BEGAN, UNDER, GRACE, OVERSHOOT = 1, 2, 3, 4, 5, 6, 7, 8, 9
local A, B, ADOPTED, X, Y, FREE = 10, 11, 12, 13, 14, 15
local LOG_TOTAL, LOG_USED, LOG_HEAD, LOG_M, LOG_RAW, LOG_BASE, LOG_LAST, LOG_RESERVE = 10, 11, 12, 13, 14, 15, 16, 17

local reply, size = { now }, 1

-- How many of n requests go by one counter, of which so many parts are free. With debt, looks
-- go when a request of cost 1 would.
local function room(n, algorithm, most, cost, parts, free, reserve, debt)
  if cost == 0 then
    if debt > 0 and (most - reserve < 1 or free < (1 + reserve) * parts) then return 0 end
    return n
  end
  if cost > most - reserve then return 0 end
  free, cost = free - reserve * parts, cost * parts
  if free < cost then return 0 end
  if n == 1 or free >= cost * n then return n end
  return math.min(n, floor(free / cost))
end

-- How many of n requests find a slot soon enough; ahead are the parts before them.
local function patient(n, delay, cost, parts, gain, ahead, debt)
  if delay == 0 or cost == 0 and debt == 0 then return n end
  local most = EXACT
  if delay <= floor(EXACT / gain) then most = delay * gain end
  if ahead > most then return 0 end
  if cost == 0 then return n end
  return math.min(n, floor((most - ahead) / (cost * parts)) + 1)
end

-- Adds to the numbers of permits that must leave a log until something is free.
local function want(wanted, permits)
  if permits > 0 then wanted[#wanted + 1] = permits end
end

-- What a log has to tell about a group of which granted go: when the next one could,
-- and under a soft limit until when each that goes exceeds it. With debt, charged is what all
-- took, and each could go again when so much has left.
local function wanted_of(n, granted, permits, cost, reserve, overshoot, used, debt, charged)
  local wanted, over = {}, used + granted * cost - permits
  if debt then
    local taken, need = used, math.max(1, cost) + reserve - permits
    repeat
      taken = math.min(taken + cost, used + charged)
      want(wanted, taken + need)
      if overshoot > 0 then
        want(wanted, taken + need - overshoot)
        want(wanted, taken - permits)
      end
    until cost == 0 or taken == used + charged or taken - permits - overshoot > used
    table.sort(wanted)
    return wanted
  end
  if granted < n then
    want(wanted, over + cost + reserve)
  end
  if overshoot > 0 then
    want(wanted, over + cost + reserve - overshoot)
    for i = 1, granted do want(wanted, used + i * cost - permits) end
    table.sort(wanted)
  end
  return wanted
end

-- Decides by one counter that is a log's: see decide.
local function held_log(key, permits, number, cost, n, reserve, overshoot, grace)
  local at, total, used, head, m, base, raw, last = settle_log(key, number, grace)
  if not at then return end
  local began, under, may = 0, 0, false
  if overshoot > 0 then began, under, may = soften(raw, at, grace) end
  return { LOG, permits, number, cost, at, began, under, grace, overshoot, total, used, head, m, raw, base, last, reserve }, may, permits - used
end

-- Tells what a log had, and writes down what of it goes.
local function finish_log(key, at_reply, n, granted, log)
  local told, began, under = log[LOG_RAW], log[BEGAN], log[UNDER]
  local charge = granted * log[COST]
  if log.debt then charge = math.min(log.all * log[COST], math.max(0, log.debt - log[LOG_USED])) end
  if told ~= '' then
    local old_began, old_under = struct.unpack(SOFT_LAYOUT, told, LENGTH + 1)
    told = abridged(key, log[NUMBER], log[LOG_TOTAL], log[LOG_USED], log[LOG_HEAD], log[LOG_M], log[LOG_BASE], log[LOG_LAST], old_began, old_under,
      wanted_of(n, granted, log[PERMITS], log[COST], log[LOG_RESERVE], log[OVERSHOOT], log[LOG_USED], log.debt, charge))
  end
  reply[at_reply] = told
  if charge == 0 then return end
  local over = log[LOG_USED] + charge - log[PERMITS]
  if charge > 0 and log[OVERSHOOT] > 0 and over > 0 then
    if began == 0 then began = log[AT] end
    under = log[AT] + log[NUMBER]
    if over <= log[LOG_USED] then under = entry(key, find(key, log[LOG_HEAD], log[LOG_M], 2, log[LOG_BASE] + over) - 1) + log[NUMBER] end
  end
  save_log(key, log[NUMBER], log[AT], log[LOG_TOTAL], charge, log[LOG_HEAD], log[LOG_M], log[LOG_LAST], began, under, log[GRACE])
end

-- Writes down what of a counter goes that is not a log's.
local function finish(key, n, granted, c)
  local charge, a, b, began, under = granted * c[COST], c[A], c[B], c[BEGAN], c[UNDER]
  if c[ALGORITHM] >= TOKEN then charge = charge * c[X] end
  if c.debt then
    local parts = 1
    if c[ALGORITHM] >= TOKEN then parts = c[X] end
    charge = math.min(c.all * c[COST] * parts, math.max(0, c[FREE] + (c.debt - c[PERMITS]) * parts))
  end
  if charge == 0 and not (c[ADOPTED] and n > 0) then return end
  a = a + charge
  if c[ALGORITHM] == TOKEN and charge > 0 then b = 0 end
  if charge > 0 and c[OVERSHOOT] > 0 and c[FREE] < charge then
    if began == 0 then began = c[AT] end
    under = within(c[ALGORITHM], c[PERMITS], c[NUMBER], c[AT], a, b, c[X], c[Y], c[FREE] - charge)
  end
  save(key, c[ALGORITHM], c[NUMBER], c[AT], a, b, c[X], c[Y], began, under, c[GRACE])
end

-- Decides the group whose keys and arguments begin there, and returns how many go,
-- and where the next group's arguments begin.
local function decide(n, count, key, arg)
  local granted, held = n, {}
  for i = 1, count do
    local algorithm, permits, number, cost = ARGV[arg] + 0, ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0
    local gain, reserve, delay, overshoot, grace, debt, all = 0, 0, 0, 0, 0, 0, n
    arg = arg + 4
    if algorithm >= MORE then
      local late = algorithm >= 3 * MORE
      algorithm = algorithm - MORE
      gain, reserve, delay, overshoot, grace = ARGV[arg] + 0, ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0, ARGV[arg + 4] + 0
      arg = arg + 5
      if late then
        algorithm, debt, all, arg = algorithm - 2 * MORE, ARGV[arg] + 0, ARGV[arg + 1] + 0, arg + 2
      end
    end
    if granted >= 0 and algorithm == LOG then
      local log, may, free = held_log(KEYS[key + i], permits, number, cost, n, reserve, overshoot, grace)
      if log then
        local most = permits
        if may then most, free = most + overshoot, free + overshoot end
        granted = math.min(granted, room(n, LOG, most, cost, 1, free, reserve, debt))
        held[i] = log
      else
        granted = -1
      end
    elseif granted >= 0 then
      local at, a, b, adopted, x, y, raw, free = settle(KEYS[key + i], algorithm, permits, number, gain, overshoot, grace)
      if at then
        local parts, most, began, under, may = 1, permits, 0, 0, false
        if algorithm >= TOKEN then parts = x end
        local hard = free
        if overshoot > 0 then
          began, under, may = soften(raw, at, grace)
          if may then most, free = most + overshoot, free + overshoot * parts end
        end
        if raw and #raw > SOFT_LENGTH then raw = string.sub(raw, 1, SOFT_LENGTH) end
        reply[size + i] = raw or ''
        granted = room(granted, algorithm, most, cost, parts, free, reserve, debt)
        if algorithm == LEAKY then granted = patient(granted, delay, cost, x, y, a, debt) end
        held[i] = { algorithm, permits, number, cost, at, began, under, grace, overshoot, a, b, adopted, x, y, hard }
      else
        granted = -1
      end
    end
    if debt > 0 and held[i] then held[i].debt, held[i].all = debt, all end
  end
  if granted < 0 then return granted, arg end
  -- Nothing was written of this group so far, and nothing fails from here on.
  for i = 1, count do
    if held[i][ALGORITHM] == LOG then
      finish_log(KEYS[key + i], size + i, n, granted, held[i])
    else
      finish(KEYS[key + i], n, granted, held[i])
    end
  end
  return granted, arg
end

local key, arg = 0, 1
while arg < #ARGV do
  local count, n = ARGV[arg] + 0, ARGV[arg + 1] + 0
  size = size + 1
  for i = 0, count do reply[size + i] = '' end
  reply[size], arg = decide(n, count, key, arg + 2)
  size, key = size + count, key + count
end

return reply
