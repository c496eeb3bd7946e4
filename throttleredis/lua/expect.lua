#!lua
-- Writes into the fence KEYS[1] that the process ARGV[1] will take over with
-- nothing lost.
local kept = redis.call('GET', KEYS[1])
if not kept then
  return 0
end
redis.call('SET', KEYS[1], string.sub(kept, 1, 87) .. ARGV[1])
return 1
