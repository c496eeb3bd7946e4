-- grant is how much of n passes where left fit; nil: not enough.
local function grant(flags, n, least, left, owing)
  if has(flags, PEEK) > 0 then
    return not owing and 0 or nil
  elseif n <= left or has(flags, DEBT) > 0 then -- giving back included
    return n
  elseif has(flags, PART) > 0 and least <= left then
    return left
  end
end

-- A window that forgets all at its end: [begin, fin) holds now, and would be
-- that of a new state; begins(T) is the begin of the one that ends at T. No
-- begin: it is that of the first hit.
local function window(kept, limit, ask, since, count, n, least, period, fin, latest, begins)
  local flags = byte(ask, 2)
  local T, N, P, anew, stay = read(kept, limit, flags, ask, since, fin)
  if not T then
    return other(kept)
  end
  local fix = anew and has(flags, PEEK) == 0
  if T > latest then
    T, fix = latest, true
  end
  fix = fix and not stay
  local keepT, keepN = T, N
  local live, used = T > now, 0
  if live then
    fin, used = T, min(N, 2 * count)
  end

  -- Since the fence, what is free has grown from zero with time; N is then
  -- what was used after it.
  local base = 0
  if since > 0 then
    local length = period
    if begins then
      local begin = begins(fin)
      length = begin <= since and fin - begin
    elseif now < since + period then
      fin = max(fin, since + period)
      if not live then
        fin = since + period
      end
    else
      length = false
    end
    if length then
      local free = 0
      if now > since then
        free = muldiv(count, min(now - since, length), length)
      end
      base = count - free
      if live and P ~= since then -- what was carried over counts all
        used = max(used - (anew and base or count), 0)
        if anew then
          keepN, P = used, since
        end
      end
      used = min(base + used, 2 * count)
    else
      since = 0
    end
  end
  if since == 0 and P > 0 and live then
    P = 0 -- of a fence that is no more
  end

  local got = grant(flags, n, least, max(count - used, 0), used > count)
  local answer, new, newT = used > 0 and state(fin, used) or '\0'
  if got and got ~= 0 then
    local after = min(max(used + got, 0), 2 * count) - base
    if after > 0 then
      new, newT = value(limit, fin, after, since), fin
    else
      new, newT = '', 0
    end
  end
  if fix then
    return got ~= nil, answer, new, newT, value(limit, keepT, keepN, P), keepT
  end
  return got ~= nil, answer, new, newT
end

-- FixedWindow
kinds[1] = function(kept, limit, ask, since)
  local count, n, least, period = parse('<dddd', ask, 4)
  local further = now + max(period, skew)
  return window(kept, limit, ask, since, count, n, least, period, now - now % period + period,
    further - further % period + period, function(T) return T - period end)
end

-- FirstHitWindow
kinds[5] = function(kept, limit, ask, since)
  local count, n, least, period = parse('<dddd', ask, 4)
  return window(kept, limit, ask, since, count, n, least, period, now + period, now + period + skew)
end

-- CalendarWindow: the caller knows the calendar, and sends the edges around
-- what it takes to be now.
kinds[6] = function(kept, limit, ask, since)
  local count, n, least, near, first, e0, e1, e2, e3 = parse('<ddddddddd', ask, 4)
  if now < first or now >= e2 then
    return nil, '\5'
  end
  local fin, latest = e1, e2
  if now >= e1 then
    fin, latest = e2, e3
  end
  local T = read(kept, limit, byte(ask, 2), ask, since, fin)
  if T and T <= now + near then
    latest = T
  end
  return window(kept, limit, ask, since, count, n, least, 0, fin, latest, function(T)
    return T <= e1 and e0 or T <= e2 and e1 or e2
  end)
end
