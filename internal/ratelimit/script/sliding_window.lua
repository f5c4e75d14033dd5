-- A sliding window: a list of groups "TIME NUMBER", with their sum and the count that
-- they are of in front, "SUM COUNT". It is one key, as a script with several cannot run
-- while their slot moves to another server of a cluster. A group counts from its last
-- time, so there is never too much in a window. Returned as by a token bucket, which it
-- is like with a portion as well.
local count, per, cost, groups = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4]), 127
local most, unit, worth = tonumber(ARGV[5] or cost), tonumber(ARGV[6] or 1), tonumber(ARGV[7] or 1)
local list = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local function group(text)
  local at, n = string.match(text, '^(%d+) (%d+)$')
  return tonumber(at), tonumber(n)
end
local function text(at, n) return string.format('%.0f %.0f', at, n) end

local total, of = 0, count
local front = redis.call('LPOP', list)
if front then total, of = group(front) end
local last = redis.call('LINDEX', list, -1)
if not last then
  total = 0
elseif group(last) - now > per then -- the clock went back, as that of another server
  redis.call('DEL', list)
  total, last = 0, false
else
  now = math.max(now, (group(last)))
end
if last and of ~= count then -- another count: the same share, rounded up once
  local before, sum = redis.call('LRANGE', list, 0, -1), 0
  redis.call('DEL', list)
  total = 0
  for _, entry in ipairs(before) do
    local at, n = group(entry)
    sum = sum + n
    local scaled = math.ceil(sum * count / of) - total
    total = total + scaled
    redis.call('RPUSH', list, text(at, scaled))
  end
end
while last do
  local first = redis.call('LINDEX', list, 0)
  if not first then
    last = false
    break
  end
  local at, n = group(first)
  if at > now - per then break end
  redis.call('LPOP', list)
  total = total - n
end
local passes, taken, reset, retry, again = 0, 0, 0, 0, 0
if total + cost <= count then
  passes, reset = 1, per
  taken = cost + math.floor((math.min(most, count - total) - cost) / unit) * unit
  total = total + taken
  local at, n
  if last then at, n = group(redis.call('LINDEX', list, -1)) end
  if at and (at == now or n + taken <= math.ceil(count / groups)) then
    redis.call('LSET', list, -1, text(now, n + taken))
  else
    redis.call('RPUSH', list, text(now, taken))
  end
end
local needed = passes == 0 and cost or ARGV[5] and unit or 0
if total + needed > count then
  retry, again = per, per
  local left = total
  for _, entry in ipairs(redis.call('LRANGE', list, 0, -1)) do
    local at, n = group(entry)
    left, reset = left - n, at + per - now
    if retry == per and left + needed <= count then retry = reset end
    if again == per and left + worth <= count then again = reset end
  end
end
redis.call('LPUSH', list, text(total, count))
redis.call('PEXPIRE', list, math.ceil(per / 1000) + 1000)
if not ARGV[5] then return {passes, math.max(0, count - total), reset, retry, now} end
return {passes, math.max(0, count - total), reset, retry, now, taken, math.min(again, retry + per / 100)}
