-- The short way of the usual case: some are taken from token buckets, one each,
-- the limits are as they were, and so is the process. All else goes the long
-- way, and so does all of this where anything is not as usual: nothing has been
-- written then. The answers of both are the same.
local usual = byte(ARGV[2], 3) == 0
for i = 3, 2 * #KEYS, 2 do
  local size, flags = byte(ARGV[i + 1], 1, 2)
  usual = usual and byte(ARGV[i]) == 0 and size == 1 and flags == 0
end
if usual then
  local values = call('MGET', unpack(KEYS))
  local fence, since = values[1], 0
  if byte(ARGV[2], 2) == 0 then
    usual = fence and sub(fence, 62, 101) == known
      and (fresh or string.find(call('INFO', 'replication'), sub(fence, 8, 61), 1, true))
    since = usual and parse('<I7', fence)
  end
  local n, answers, new, ends = #KEYS - 1, nil, nil, nil
  if n > 1 then
    answers, new, ends = {}, {}, {}
  end
  for i = 1, usual and n or 0 do
    local key, limit = KEYS[i + 1], ARGV[2 * i + 1]
    local wu, wr, ru, rr, count = parse('<ddddd', ARGV[2 * i + 2], 4) -- worth of N, room
    local kept, T, N = new and new[key] or values[i + 1], 0, 0
    if kept then
      usual = sub(kept, 1, #limit) == limit
      if not usual then
        break
      end
      T, N = parse('<I7I7', kept, #limit + 1)
    end
    -- No further ahead than it could honestly be; and all has refilled since the
    -- fence, if there was one.
    usual = T <= now + 2 * ru and since + ru < now
    if not usual then
      break
    end
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
      local value = limit .. pack('<I7I7', T, N)
      if n == 1 then
        call('SET', key, value, 'PX', 1000 - floor((now - T) / 1000))
      else
        new[key], ends[key] = value, T
      end
    end
    if n == 1 then
      return pack('<I7B', now, 0) .. answer
    end
    answers[i] = answer
  end
  if usual then
    for key, T in pairs(ends) do
      call('SET', key, new[key], 'PX', 1000 - floor((now - T) / 1000))
    end
    return pack('<I7B', now, 0) .. table.concat(answers)
  end
end

local strict, unfenced, logs, overlap, at = parse('<BBBI7I7', ARGV[2])
-- A question that is put again, with a state carried over from another limit, is
-- decided as of the time of that state, if that has just been: within a minute.
local carries = at <= now and at > now - 60 * skew
local real = now
if carries then
  now = at
end

