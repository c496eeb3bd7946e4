return redis.call('INFO', ARGV[1])
