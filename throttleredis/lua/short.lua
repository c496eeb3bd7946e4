-- The short way of the usual case: some are taken from one token bucket, the
-- limit is as it was, and so is the process. All else goes the long way, and so
-- does this where anything is not as usual; the answers are the same.
if #KEYS == 2 and sub(ARGV[3], 1, 1) .. sub(ARGV[4], 1, 2) == '\0\1\0' then
  local limit, kept, fence = ARGV[3], call('GET', KEYS[2]), call('GET', KEYS[1])
  local T, N = 0, 0
  local usual = byte(ARGV[2], 2) > 0
    or fence and sub(fence, 62, 101) == known
      and string.find(call('INFO', 'replication'), sub(fence, 8, 61), 1, true)
  if kept then
    local at = #limit
    usual = usual and sub(kept, 1, at) == limit
    if usual then
      T, N = parse('<I7I7', kept, at + 1)
    end
  end
  local wu, wr, ru, rr, count = parse('<ddddd', ARGV[4], 4)
  usual = usual and (not fence or parse('<I7', fence) + ru < now) -- all has refilled since
  if usual and T <= now + 2 * ru then -- no further ahead than it could honestly be
    local su, sr, answer = wu, wr, '\0' -- the debt after it
    if T > now then
      answer = pack('<BI7I7', 1, T, N)
      su = su + T - now
      if N > 0 and N < count then
        su, sr = su - 1, sr + count - N
      end
      if sr >= count then
        su, sr = su + 1, sr - count
      end
    end
    if su < ru or su == ru and sr <= rr then
      T, N = now + su, 0
      if sr > 0 then
        T, N = T + 1, count - sr
      end
      call('SET', KEYS[2], limit .. pack('<I7I7', T, N), 'PX', 1000 - floor((now - T) / 1000))
    end
    return pack('<I7B', now, 0) .. answer
  end
end

local strict, unfenced, logs, overlap, at = parse('<BBBI7I7', ARGV[2])
-- A question that is put again, with a state carried over from another limit, is
-- decided as of the time of that state, if that has just been.
local carries = at <= now and at > now - skew
local real = now
if carries then
  now = at
end

