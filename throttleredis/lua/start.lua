#!lua
-- Keeps the states of keys as package limit says, and answers what they were
-- before, so that the caller can derive the decisions by that package.
--
-- KEYS[1] is the fence, KEYS[1+i] the key of ask i.
-- ARGV[1] holds for all asks: of which sort they are; Strict and Unfenced; when
-- the caller had it looked at who serves here, and since when the fence was then,
-- or zeros; Overlap; the time of states that were carried over; who it was that
-- the caller has last met, or nothing. ARGV[1+i] is ask i, with its limit.
--
-- All numbers are whole and below 2^53, where those of Lua are exact. Instants
-- are microseconds of Unix time.
local wrote = false -- a state

-- decide_all is all of the script but what becomes of its errors: see the end.
local function decide_all()
local call, pack, parse = redis.call, struct.pack, struct.unpack
local sub, byte, floor = string.sub, string.byte, math.floor

local clock, head = call('TIME'), ARGV[1]
local now = clock[1] * 1000000 + clock[2]
local sort, strict, unfenced, met, met_since = parse('<BBBI7I7', head)
