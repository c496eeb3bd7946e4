-- SlidingWindow: cur is what this window has used, prev what the one before.
kinds[3] = function(kept, limit, ask, since)
  local flags = byte(ask, 2)
  local count, n, least, period = parse('<dddd', ask, 4)
  local T, N, P, anew, stay = read(kept, limit, flags, ask, since)
  if not T then
    return other(kept)
  end
  local fix, most = anew and has(flags, PEEK) == 0, 2 * count
  local further = now + max(period, skew)
  local latest = further - further % period + 2 * period
  if T > latest then
    T, fix = latest, true
  end
  fix = fix and not stay
  local keepT, keepN, keepP = T, N, P

  local fin, cur, prev = now - now % period + period, 0, 0
  if T > now + period then
    fin, cur, prev = T - period, min(N, most), min(P, most)
  elseif T > now then
    fin, prev = T, min(N, most)
  end
  local left = min(fin - now, period)

  -- weight is prev × left/period, to a whole number, a half down.
  local function weight()
    local q, r = muldiv(prev, left, period)
    return r > period - r and q + 1 or q
  end

  -- At the fence all had been used, and it fades as does a window that ended
  -- then. A state written since has one of two ends.
  if since > 0 and now < since + period and T ~= since + period and T ~= since + 2 * period then
    local before = cur + weight()
    T, N, P = since + period, min(max(before, count), most), 0
    fin, cur, prev = T, 0, N
    if anew and now >= since then -- what was used since is known
      prev = count
      left = min(fin - now, period)
      T, N, P = fin + period, max(before - weight(), 0), count
      cur = N
    elseif T > now + period then -- not before since
      fin, cur, prev = since, N, 0
    end
    left = min(fin - now, period)
  end

  local weighs = weight()
  local used = cur + weighs
  local got = grant(flags, n, least, max(count - used, 0), used > count)
  local answer, new, newT = state(T, N, P)
  if got and got ~= 0 then
    if got < 0 then
      local here = min(-got, cur)
      cur, prev = cur - here, prev - min(-got - here, prev)
    else
      cur = max(cur, min(cur + got, most - min(weighs, most)))
    end
    if cur > 0 then
      newT = fin + period
      new = value(limit, newT, cur, prev)
    elseif prev > 0 then
      newT = fin
      new = value(limit, newT, prev)
    else
      new, newT = '', 0
    end
  end
  if fix then
    return got ~= nil, answer, new, newT, value(limit, keepT, keepN, keepP), keepT
  end
  return got ~= nil, answer, new, newT
end
