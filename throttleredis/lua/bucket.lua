-- A token bucket, as the generic cell rate algorithm. A span is whole
-- microseconds and parts of another, of which count make one.
kinds[0] = function(kept, limit, ask, since)
  local flags, wu, wr, ru, rr, count = parse('<Bxddddd', ask, 2) -- worth of N, room
  local T, N, _, anew, stay = read(kept, limit, flags, ask, since)
  if not T then
    return other(kept)
  end

  -- bottom = 2 × room
  local bu, br = 2 * ru, 2 * rr
  if br >= count then
    bu, br = bu + 1, br - count
  end
  local latest = now + bu + skew
  if br > 0 then
    latest = latest + 1
  end
  local fix = anew and has(flags, PEEK) == 0
  if T > latest then
    T, N, fix = latest, 0, true
  end
  fix = fix and not stay
  local keepT, keepN = T, N
  if since > 0 then -- all was used then
    local full = since + ru
    if rr > 0 then
      full = full + 1
    end
    if full > now and (T < full or T == full and N > 0) then
      T, N = full, 0
    end
  end

  -- debt = T - N/count - now
  local du, dr = 0, 0
  if T > now then
    if N <= 0 or N >= count then
      du = T - now
    else
      du, dr = T - now - 1, count - N
    end
  end
  local answer, ok = state(T, N), true
  local su, sr = du, dr -- the debt after it
  if has(flags, PEEK) > 0 then
    ok = du < ru or du == ru and dr <= rr
  elseif has(flags, BACK) > 0 then
    su, sr = du - wu, dr - wr
    if sr < 0 then
      su, sr = su - 1, sr + count
    end
    if su < 0 then
      su, sr = 0, 0
    end
  else
    su, sr = du + wu, dr + wr
    if sr >= count then
      su, sr = su + 1, sr - count
    end
    if su < ru or su == ru and sr <= rr then -- debt + worth <= room
      ok = true
    elseif has(flags, DEBT) > 0 then
      if bu < du or bu == du and br < dr then
        su, sr = du, dr
      elseif bu < su or bu == su and br < sr then
        su, sr = bu, br
      end
    else
      ok = false
      if has(flags, PART) > 0 then
        -- As many events as fit: of 1, 2, 4 ... events, the most first.
        local n, least, ou, orem = parse('<dddd', ask, 44)
        local us, rems, most = { ou }, { orem }, 1
        while 2 ^ most <= n and us[most] <= ru do
          local u, r = 2 * us[most], 2 * rems[most]
          if r >= count then
            u, r = u + 1, r - count
          end
          most = most + 1
          us[most], rems[most] = u, r
        end
        local got = 0
        su, sr = du, dr
        for k = most, 1, -1 do
          local u, r = su + us[k], sr + rems[k]
          if r >= count then
            u, r = u + 1, r - count
          end
          if u < ru or u == ru and r <= rr then
            su, sr, got = u, r, got + 2 ^ (k - 1)
          end
        end
        ok = got >= least
      end
    end
  end

  local new, newT
  if ok and has(flags, PEEK) == 0 and (su ~= du or sr ~= dr or T <= now or anew) then
    newT, N = now + su, 0
    if sr > 0 then
      newT, N = newT + 1, count - sr
    end
    new = value(limit, newT, N)
  end
  if fix then
    return ok, answer, new, newT, value(limit, keepT, keepN), keepT
  end
  return ok, answer, new, newT
end
