-- A token bucket: what is left, when that was, and of which burst. What is refused
-- takes nothing. Returned: whether it passes, what remains, in microseconds until all is
-- there again and until it would pass, and when that was.
-- With a most, a unit and a worth it takes a portion, as Strategy says.
local count, per, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local most, unit, worth = tonumber(ARGV[5] or cost), tonumber(ARGV[6] or 1), tonumber(ARGV[7] or 1)
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local held = redis.call('HMGET', KEYS[1], 'left', 'at', 'of')
local left, at = burst, now
if held[1] then
  at = tonumber(held[2])
  left = tonumber(held[1]) * burst / tonumber(held[3]) -- another burst: the same share
  left = math.min(burst, left + math.max(0, now - at) * count / per)
end
local function wait(n) return math.max(0, math.ceil((math.min(n, burst) - left) * per / count)) end
local passes, taken, retry = 0, 0, 0
if left >= cost then
  passes, taken = 1, cost + math.floor((math.min(most, left) - cost) / unit) * unit
  left = left - taken
  if ARGV[5] then retry = wait(unit) end
else
  retry = wait(cost)
end
local reset = math.ceil((burst - left) * per / count)
if passes == 1 or now < at then -- a clock that went back, as that of another server, is believed
  redis.call('HSET', KEYS[1], 'left', string.format('%.17g', left), 'at', string.format('%.0f', now), 'of', burst)
  redis.call('PEXPIRE', KEYS[1], math.ceil(reset / 1000) + 1000)
end
if not ARGV[5] then return {passes, math.floor(left), reset, retry, now} end
return {passes, math.floor(left), reset, retry, now, taken, wait(worth)}
