-- What was taken of a sliding window and is not used goes back: to the group that counts
-- it, which is the first one that ends no earlier, and the rest to those before it. Of
-- another count it is the same share. Groups that have become small are one with their
-- neighbours, so that there are not too many.
if ARGV[4] then -- what has left the window has come back by itself
  local clock = redis.call('TIME')
  if clock[1] * 1000000 + clock[2] >= tonumber(ARGV[4]) then return {0} end
end
local list, stamp, groups = KEYS[1], tonumber(ARGV[3]), 127
local function pair(text)
  local a, b = string.match(text, '^(%d+) (%d+)$')
  return tonumber(a), tonumber(b)
end
local function text(a, b) return string.format('%.0f %.0f', a, b) end

local entries, ends, sizes = redis.call('LRANGE', list, 0, -1), {}, {}
if not entries[1] then return {0} end -- all is there again
local total, of = pair(entries[1])
local last
for i = 2, #entries do
  ends[i], sizes[i] = pair(entries[i])
  if not last and ends[i] >= stamp then last = i end
end
if not last then return {0} end
local back, size = math.floor(tonumber(ARGV[1]) * of / tonumber(ARGV[2])), math.ceil(of / groups)
local rest, first = back, last + 1
while rest > 0 and first > 2 do
  first = first - 1
  local part = math.min(rest, sizes[first])
  sizes[first], rest = sizes[first] - part, rest - part
end
local final = math.min(last + 1, #entries)
for i = math.max(first, 3), final do
  if sizes[i - 1] + sizes[i] <= size then sizes[i - 1], sizes[i] = 0, sizes[i - 1] + sizes[i] end
end
for i = math.max(first - 1, 2), final do
  redis.call('LSET', list, i - 1, sizes[i] > 0 and text(ends[i], sizes[i]) or 'gone')
end
redis.call('LREM', list, 0, 'gone')
redis.call('LSET', list, 0, text(total - back + rest, of))
return {back - rest}
