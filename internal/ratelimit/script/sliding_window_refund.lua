-- What was taken of a sliding window and is not used goes back: to the group that counts
-- it, which is the first one that ends no earlier. Of another count it is the same share.
-- A group that has become small is one with the one before, so that there are not too many.
local list, stamp, groups = KEYS[1], tonumber(ARGV[3]), 127
local function pair(text)
  local a, b = string.match(text, '^(%d+) (%d+)$')
  return tonumber(a), tonumber(b)
end
local function text(a, b) return string.format('%.0f %.0f', a, b) end

local entries = redis.call('LRANGE', list, 0, -1)
if not entries[1] then return 0 end -- all is there again
local total, of = pair(entries[1])
local back, before = math.floor(tonumber(ARGV[1]) * of / tonumber(ARGV[2])), nil
for i = 2, #entries do
  local at, n = pair(entries[i])
  if at >= stamp then
    back = math.min(back, n)
    n = n - back
    if before and before + n <= math.ceil(of / groups) then
      redis.call('LSET', list, i - 2, 'one with the next')
      redis.call('LREM', list, 1, 'one with the next')
      redis.call('LSET', list, i - 2, text(at, before + n))
    else
      redis.call('LSET', list, i - 1, text(at, n))
    end
    redis.call('LSET', list, 0, text(total - back, of))
    return back
  end
  before = n
end
return 0
