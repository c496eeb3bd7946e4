#!lua
-- Writes into the fence KEYS[1] that the process ARGV[1] will take over within
-- ARGV[2] microseconds and have all that was written; or, of an empty process,
-- that none will. Without a fence there is nothing to lose.
local kept = redis.call('GET', KEYS[1])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
if kept and string.sub(kept, 8, 21) == 'master_replid:' then
  local fence = string.sub(kept, 1, 109)
  if #kept ~= 109 and #kept ~= 156 then -- of an earlier version
    fence = string.sub(kept, 1, 101) .. struct.pack('<I7', now) .. 'k'
  end
  if ARGV[1] ~= '' then
    fence = fence .. struct.pack('<I7', now + ARGV[2]) .. ARGV[1]
  end
  redis.call('SET', KEYS[1], fence)
end
return struct.pack('<I7B', 0, 0)
