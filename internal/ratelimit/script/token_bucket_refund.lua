-- What was taken from a token bucket and is not used goes back, and what would be more
-- than a full one is lost. Of another burst it is the same share.
local held = redis.call('HMGET', KEYS[1], 'left', 'of')
if not held[1] then return 0 end -- it is full
local left, of = tonumber(held[1]), tonumber(held[2])
local back = math.floor(tonumber(ARGV[1]) * of / tonumber(ARGV[2]))
redis.call('HSET', KEYS[1], 'left', string.format('%.17g', math.min(of, left + back)))
return back
