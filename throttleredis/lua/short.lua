-- The short way of the usual case: some are taken from token buckets, one each,
-- the limits are as they were, and so is the process. All else goes the long
-- way, and so does all of this where anything is not as usual: nothing has been
-- written then. The answers of both are the same.
local usual = byte(ARGV[2], 3) == 2 -- says the caller
if usual then
  local n, values, first, since, head = #KEYS - 1, nil, 1, 0, nil
  if fresh or byte(ARGV[2], 2) == 1 then
    since, first = fence_since, 0 -- no need of the fence
    if n == 1 then
      values = { call('GET', KEYS[2]) }
    else
      values = call('MGET', unpack(KEYS, 2))
    end
  else
    local find = string.find
    values = call('MGET', unpack(KEYS))
    local fence = values[1]
    usual = fence and known ~= '' and find(fence, known, 62, true) == 62
      and find(call('INFO', 'replication'), sub(fence, 8, 61), 1, true)
    if usual then
      since = parse('<I7', fence)
      head = pack('<I7BI7', now, 7, since)
    end
  end
  local answers, new, ends
  if n > 1 then
    answers, new, ends = {}, {}, {}
  end
  for i = 1, usual and n or 0 do
    local key, limit = KEYS[i + 1], ARGV[2 * i + 1]
    local wu, wr, ru, rr, count = parse('<ddddd', ARGV[2 * i + 2], 4) -- worth of N, room
    local kept, T, N = new and new[key] or values[i + first], 0, 0
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
      return (head or pack('<I7B', now, 0)) .. answer
    end
    answers[i] = answer
  end
  if usual then
    for key, T in pairs(ends) do
      call('SET', key, new[key], 'PX', 1000 - floor((now - T) / 1000))
    end
    return (head or pack('<I7B', now, 0)) .. table.concat(answers)
  end
end

local strict, unfenced, logs, overlap, at = parse('<BBBI7I7', ARGV[2])
logs = logs % 2
-- A question that is put again, with a state carried over from another limit, is
-- decided as of the time of that state, if that has just been: within a minute.
local carries = at <= now and at > now - 60 * skew
local real = now
if carries then
  now = at
end

