-- The slots of a limit that does not say how many.
local USUAL_SLOTS = 10

-- muldiv is a × b / c, rounded down, and what remains; b <= c, and neither a
-- nor c is above 2^51.
local function muldiv(a, b, c)
  if a * b < 9007199254740992 then
    local x = a * b
    local q = floor(x / c)
    return q, x - q * c
  elseif b == c then
    return a, 0
  end
  local q, r = 0, 0
  local _, digits = math.frexp(a)
  for k = digits - 1, 0, -1 do -- the digits of a, the highest first
    q, r = 2 * q, 2 * r
    local power = 2 ^ k
    if a >= power then
      a, r = a - power, r + b
    end
    while r >= c do
      q, r = q + 1, r - c
    end
  end
  return q, r
end

-- uvarint is the number at a place of a value, and the place after it.
local function uvarint(value, at)
  local n, scale = 0, 1
  repeat
    local digit = byte(value, at)
    n, scale, at = n + digit % 128 * scale, scale * 128, at + 1
  until digit < 128
  return n, at
end

-- terms are the kind, Count and Period in a value or limit, and the place after.
local function terms(value)
  local count, at = uvarint(value, 3)
  local period
  period, at = uvarint(value, at)
  return byte(value) - FORMAT, count, period, at
end

-- used_in is what a value of another limit says was used: whole events, and
-- part/of of another.
local function used_in(kept, since)
  local length = byte(kept, 2)
  if length == 0 then -- slots
    local n = 0
    for p = 17, #kept, 14 do
      local _, amount = parse('<I7I7', kept, p)
      n = n + amount
    end
    return n, 0, 1
  end
  local kind, count, period, rest = terms(kept)
  if rest > 3 + length or period == 0 or count == 0 then
    error('malformed') -- see decide
  end
  local T, N = parse('<I7I7', kept, 3 + length)
  local P = #kept == length + 23 and parse('<I7', kept, 17 + length) or 0
  if kind == 0 then
    local most = rest <= 2 + length and uvarint(kept, rest) or count
    local room, r = muldiv(period, most % count, count)
    room = room + floor(most / count) * period
    -- no further ahead than it could honestly be
    T = min(T, now + 2 * room + (r > 0 and 1 or 0) + (2 * r > count and 1 or 0) + skew)
    local whole, part = muldiv(count, (T - now) % period, period)
    return floor((T - now) / period) * count + whole, part, period
  elseif kind == 3 then
    local left, cur = T - now, 0
    if left > period then
      left, cur, N = min(left - period, period), N, P
    end
    local whole, part = muldiv(min(N, 2 * count), left, period)
    return min(cur, 2 * count) + whole, part, period
  elseif P > 0 and P == since then -- all was used then, and N since
    local free = 0
    if kind ~= 6 and now > since then
      free = muldiv(count, min(now - since, period), period)
    end
    N = N + count - free
  end
  return min(N, 2 * count), 0, 1
end

-- stays is limit.Forgives: whether a value of another limit stays where the ask is
-- refused, as what was used, all, is more than limit can owe, and gone within twice
-- the time in which limit refills. A value of slots does not tell how many slots
-- there are: it is taken to have the usual number.
local function stays(kept, limit, all)
  local kind, count, period, rest = terms(limit)
  local most, length, left = count, byte(kept, 2), 0
  if kind == 0 and rest <= 2 + byte(limit, 2) then
    most = uvarint(limit, rest)
  elseif kind == 6 then
    period = period / 1000
  end
  if length > 0 then
    left = parse('<I7', kept, 3 + length) - now
  else
    local width, last = parse('<I7', kept, 3), parse('<I7', kept, #kept - 13)
    left = (last + USUAL_SLOTS + 1) * width - now
  end
  return all > 2 * most and left <= 2 * period * max(most / count, kind == 0 and 0 or 1)
end

-- convert is a state under another limit, as package limit changes it, but that
-- it rounds up to microseconds. So it needs no answer of the caller, which comes
-- too late where others ask under the other limit all the time. fin is the end
-- of the calendar window.
local function convert(kept, limit, since, fin)
  local n, part, of = used_in(kept, since)
  local all = part > 0 and n + 1 or n
  local stay = stays(kept, limit, all)
  local kind, count, period, rest = terms(limit)
  local from, length = byte(kept) - FORMAT, byte(kept, 2)
  if kind == 0 then
    local us, r = muldiv(period, n % count, count)
    local more, s = muldiv(period, part, of)
    us = floor(n / count) * period + us + floor(more / count)
    if r > 0 or s > 0 or more % count > 0 then
      us = us + 2
    end
    return now + us, 0, 0, true, stay
  end
  all = min(all, 2 * count)
  local T = length > 0 and parse('<I7', kept, 3 + length)
  local same, old = false, nil
  if from == kind then
    local _, at
    _, _, old, at = terms(kept)
    same = old == period and sub(kept, at, 2 + length) == sub(limit, rest)
  end
  if kind == 3 then
    if same then
      local N, P = parse('<I7', kept, 10 + length), #kept == length + 23 and parse('<I7', kept, 17 + length) or 0
      return T, min(N, 2 * count), min(P, 2 * count), true, stay
    end
    return now - now % period + 2 * period, all, 0, true, stay
  elseif same then
    return T, all, 0, true, stay
  elseif kind == 1 then
    return now - now % period + period, all, 0, true, stay
  elseif kind == 5 then
    if from == 5 then
      local left, r = muldiv(period, min(T - now, old), old)
      return now + left + (r > 0 and 1 or 0), all, 0, true, stay
    end
    return now + period, all, 0, true, stay
  end
  return fin, all, 0, true, stay
end

-- read is the state in a value, and whether it was carried over from another
-- limit, here or as the caller has worked out, and then whether the value stays
-- where the ask is refused. No state: that is for the caller to do.
local function read(kept, limit, flags, ask, since, fin)
  if not kept then
    return 0, 0, 0
  end
  local at = #limit + 1
  if sub(kept, 1, at - 1) == limit then
    local T, N = parse('<I7I7', kept, at)
    if T <= now then
      return 0, 0, 0
    elseif #kept < at + 20 then
      return T, N, 0
    end
    return T, N, parse('<I7', kept, at + 14), false
  end
  local length = byte(kept, 2)
  if length > 0 and parse('<I7', kept, 3 + length) <= now then
    return 0, 0, 0
  elseif carries and has(flags, CHANGED) > 0 then
    local from = byte(ask, 3) + #limit
    if sub(ask, from + 21) == kept then
      local T, N, P = parse('<I7I7I7', ask, from)
      return T, N, P, true, has(flags, STAYS) > 0
    end
  end
  if length == 0 or has(flags, CONVERT) > 0 then
    return convert(kept, limit, since, fin)
  end
end

-- other is the answer that a state was written under another limit.
local function other(kept)
  return nil, pack('<BI4', 4, #kept) .. kept
end
