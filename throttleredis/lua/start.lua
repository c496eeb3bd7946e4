#!lua
-- Keeps the states of keys as package limit says, and answers what they were
-- before, so that the caller can derive the decisions by that package.
--
-- KEYS[1] is the fence, KEYS[1+i] the key of ask i.
-- ARGV[1] is the process the caller has last met here, or empty; and, if it was
-- asked who it is lately, when that was, and since when the fence is; ARGV[2] says how to fence; ARGV[2i+1] is the limit of ask i and ARGV[2i+2] what is asked.
--
-- All numbers are whole and below 2^53, where those of Lua are exact. Instants
-- are microseconds of Unix time.
local call, pack, parse = redis.call, struct.pack, struct.unpack
local sub, byte, floor, min, max = string.sub, string.byte, math.floor, math.min, math.max

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local skew = 1000000 -- as in package limit
local known = sub(ARGV[1], 1, 40)
-- Who serves is looked at once a millisecond: nobody is replaced, and the caller
-- led to another, in less. In between the caller says what the fence was. What
-- was asked by a clock ahead of this one counts for nothing.
local met, fence_since = 0, 0
if #ARGV[1] > 40 then
  met, fence_since = parse('<I7I7', ARGV[1], 41)
end
local fresh = met <= now and now - met < 1000

