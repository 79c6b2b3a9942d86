-- Writes a document if its version still is the one that the writer knows.
--
--   KEYS[1]   the document
--   ARGV[1]   the version known: 0 never written, -1 not written by a proxy
--   ARGV[2]   the new body
--   ARGV[3]   the size in bytes of the largest value that is a document
--
-- A document is kept as {"version":7,"document":<body>}. A value that is larger, or has
-- another form, was not written by a proxy. Returns the version that was written, or 0.
-- Only the start of the old document is read, as it may be large.

local PATTERN = '^{"version":(%d+),"document":'
local DIGITS_MAX = 15 -- numbers are exact up to 2^53

local version = 0
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'string' then
  local head = redis.call('GETRANGE', KEYS[1], 0, 63)
  local number = string.match(head, PATTERN)
  local whole = redis.call('STRLEN', KEYS[1]) <= tonumber(ARGV[3]) and redis.call('GETRANGE', KEYS[1], -1, -1) == '}'
  if whole and number and #number <= DIGITS_MAX and tonumber(number) > 0 then
    version = tonumber(number)
  elseif head ~= '' then
    version = -1
  end
elseif kind ~= 'none' then
  version = -1
end

if version ~= tonumber(ARGV[1]) then return 0 end

version = math.max(0, version) + 1
redis.call('SET', KEYS[1], '{"version":' .. string.format('%d', version) .. ',"document":' .. ARGV[2] .. '}')
return version
