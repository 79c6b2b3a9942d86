-- Says whether scripts may write here: a replica, a server out of memory and one
-- that is loading answer a PING but decide nothing.

return redis.call('SET', KEYS[1], '1', 'PX', 1000)
