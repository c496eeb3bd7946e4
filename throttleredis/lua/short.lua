-- The short way of the usual case: some are taken from token buckets, one each,
-- the limits are as they were, and so is the process. All else goes the long
-- way, and so does all of this where anything is not as usual: nothing has been
-- written then. The answers of both are the same.
if sort == 2 then -- says the caller
  local n, usual, since, looked, kept, values = #KEYS - 1, true, met_since, false, nil, nil
  if n == 1 then
    kept = redis.pcall('GET', KEYS[2])
    usual = type(kept) ~= 'table'
  else
    values = call('MGET', unpack(KEYS, 2))
  end
  -- Who serves is looked at once a millisecond: nobody is replaced, and the caller
  -- led to another, in less. In between the caller says what the fence was. What
  -- was asked by a clock ahead of this one counts for nothing.
  if (met > now or now - met >= 1000) and unfenced == 0 then
    local find, fence, known = string.find, redis.pcall('GET', KEYS[1]), sub(head, 32)
    looked = type(fence) == 'string' and known ~= '' and find(fence, known, 62, true) == 62
      and find(call('INFO', 'replication'), sub(fence, 8, 61), 1, true)
    usual = usual and looked
    if looked then
      since = parse('<I7', fence)
    end
  end
  local answers, new, ends
  if n > 1 then
    answers, new, ends = {}, {}, {}
  end
  for i = 1, usual and n or 0 do
    local key, ask = KEYS[i + 1], ARGV[i + 1]
    local wu, wr, ru, rr, count = parse('<ddddd', ask, 4) -- worth of N, room
    local limit = sub(ask, 44)
    if n > 1 then
      kept = new[key] or values[i]
    end
    local T, N = 0, 0
    if kept then
      usual = sub(kept, 1, #limit) == limit and (#kept == #limit + 14 or #kept == #limit + 21)
      if not usual then
        break
      end
      T, N = parse('<I7I7', kept, #limit + 1)
    elseif n > 1 then -- or of another type, which MGET does not tell
      usual = call('EXISTS', key) == 0
    end
    -- No further ahead than it could honestly be; and all has refilled since the
    -- fence, if there was one.
    usual = usual and T <= now + 2 * ru and since + ru < now
    if not usual then
      break
    end
    local su, sr, owes = wu, wr, T > now -- the debt after it
    if owes then
      su = su + T - now
      if N > 0 and N < count then
        su, sr = su - 1, sr + count - N
      end
      if sr >= count then
        su, sr = su + 1, sr - count
      end
    end
    if su < ru or su == ru and sr <= rr then
      local newT, newN = now + su, 0
      if sr > 0 then
        newT, newN = newT + 1, count - sr
      end
      local value = limit .. pack('<I7I7', newT, newN)
      if n == 1 then
        call('SET', key, value, 'PX', 1000 - floor((now - newT) / 1000))
      else
        new[key], ends[key] = value, newT
      end
    end
    if n > 1 then
      answers[i] = owes and pack('<BI7I7', 1, T, N) or '\0'
    elseif looked then
      return owes and pack('<I7BI7BI7I7', now, 7, since, 1, T, N) or pack('<I7BI7B', now, 7, since, 0)
    else
      return owes and pack('<I7BBI7I7', now, 0, 1, T, N) or pack('<I7BB', now, 0, 0)
    end
  end
  if usual then
    for key, T in pairs(ends) do
      call('SET', key, new[key], 'PX', 1000 - floor((now - T) / 1000))
    end
    local before = looked and pack('<I7BI7', now, 7, since) or pack('<I7B', now, 0)
    return before .. table.concat(answers)
  end
end

