-- What was taken from a token bucket and is not used goes back, and what would be more
-- than a full one is lost. Of another burst it is the same share. Nor does more go back
-- than would still be missing if nothing else had been taken.
local held = redis.call('HMGET', KEYS[1], 'left', 'of')
if not held[1] then return {0} end -- it is full
local left, of = tonumber(held[1]), tonumber(held[2])
local back = math.floor(tonumber(ARGV[1]) * of / tonumber(ARGV[2]))
if ARGV[4] then
  local clock = redis.call('TIME')
  local still = tonumber(ARGV[4]) - clock[1] * 1000000 - clock[2]
  back = math.min(back, math.max(0, still * ARGV[5] / ARGV[6]))
end
redis.call('HSET', KEYS[1], 'left', string.format('%.17g', math.min(of, left + back)))
return {math.floor(back)}
