-- Writes a document if its version is still the one that the writer knows.
--
--   KEYS[1]   the document
--   ARGV[1]   the version known: 0 never written, -1 not written by a proxy
--   ARGV[2]   the new body
--
-- A document is kept as {"version":7,"document":<body>}. Returns whether it was
-- written, and the version and the body that there are now.

local PATTERN = '^{"version":(%d+),"document":(.*)}$'

local version, body = 0, ''
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'string' then
  body = redis.call('GET', KEYS[1])
  local number, inner = string.match(body, PATTERN)
  if number then version, body = tonumber(number), inner else version = -1 end
elseif kind ~= 'none' then
  version = -1
end

if version ~= tonumber(ARGV[1]) then return { 0, version, body } end

version = math.max(0, version) + 1
local text = '{"version":' .. string.format('%d', version) .. ',"document":' .. ARGV[2] .. '}'
redis.call('SET', KEYS[1], text)
return { 1, version, ARGV[2] }
