-- The instances that are alive, by when they last said so. Returned: how many, and whether
-- the one that says so now was among them (1). What is said to come from later was said
-- before the clock went back.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')
local known = redis.call('ZSCORE', KEYS[1], ARGV[1]) and 1 or 0
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('PEXPIRE', KEYS[1], 60000)
return {redis.call('ZCARD', KEYS[1]), known}
