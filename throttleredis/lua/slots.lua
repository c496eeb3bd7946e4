-- SlidingSlots. The value is the width of a slot, the fence under which it was
-- written, and of each slot in which anything was taken its number and that.
-- The answer is what was taken when, as far as it matters to the decision.
kinds[4] = function(kept, limit, ask, since)
  local flags = byte(ask, 2)
  local count, n, least, width, slots = parse('<ddddd', ask, 4)
  local at, taken, size, mark = {}, {}, 0, 0
  local function add(slot, amount)
    if size == 0 or at[size] ~= slot then
      size = size + 1
      at[size], taken[size] = slot, 0
    end
    taken[size] = taken[size] + amount
  end

  if kept and sub(kept, 1, 2) ~= limit then
    local n, part = 0, 0
    if parse('<I7', kept, 3 + byte(kept, 2)) > now then
      n, part = used_in(kept, since)
    end
    n = min(part > 0 and n + 1 or n, 2 * count)
    if since > 0 and floor(now / width) <= floor(since / width) + slots then
      n, mark = max(n, count), since
    end
    if n > 0 then
      add(floor(now / width), n)
    end
  elseif kept then
    local old
    old, mark = parse('<I7I7', kept, 3)
    for p = 17, #kept, 14 do
      local slot, amount = parse('<I7I7', kept, p)
      if old ~= width then -- where it ended, so that none leaves early
        slot = floor(((slot + 1) * old - 1) / width)
      end
      add(slot, amount)
    end
  end

  -- What is further ahead than it could honestly be is moved to where it could.
  local slot, latest = floor(now / width), floor((now + skew) / width)
  local ahead = 0
  while size > 0 and at[size] > latest do
    ahead, size = ahead + taken[size], size - 1
  end
  if ahead > 0 then
    add(latest, ahead)
  end
  if size > 0 then
    slot = max(slot, at[size])
  end
  local function oldest()
    local i = 1
    while i <= size and at[i] < slot - slots do
      i = i + 1
    end
    return i
  end
  local function sum(from, to)
    local total = 0
    for i = from, to do
      total = total + taken[i]
    end
    return total
  end
  local from = oldest()
  local used = sum(from, size)

  -- At the fence all had been used, as much in each slot.
  local edge = floor(since / width)
  if since > 0 and slot <= edge + slots and mark ~= since then
    local extra, before = min(max(used - count, 0), count), 0
    size, mark = 0, since
    for i = 1, slots do
      local upto = muldiv(count, i, slots)
      if upto > before then
        add(max(edge - slots + i, 0), upto - before)
      end
      before = upto
    end
    add(at[size], extra)
    slot = max(slot, at[size])
    from = oldest()
    used = sum(from, size)
  end

  local got = grant(flags, n, least, max(count - used, 0), used > count)

  -- split is the entry that is told apart: the one with which enough will have
  -- left, or the last one that remains of what is given back.
  local split = size
  if not got and least <= count then
    split = from
    local rest = used - (count - least) - taken[split]
    while rest > 0 do
      split = split + 1
      rest = rest - taken[split]
    end
  elseif got and got < 0 then
    local rest = -got
    while split > from and taken[split] <= rest do
      rest, split = rest - taken[split], split - 1
    end
  end
  local answer = '\0'
  if used > 0 then
    answer = pack('<BBI7I7I7I7', 3, 2, at[split] * width, sum(from, split), at[size] * width, sum(split + 1, size))
  end

  local function written(first)
    local out = { limit, pack('<I7I7', width, mark) }
    for i = first, size do
      if taken[i] > 0 then
        out[#out + 1] = pack('<I7I7', at[i], taken[i])
      end
    end
    if #out == 2 then
      return '', 0
    end
    return table.concat(out), (at[size] + slots + 1) * width
  end
  local fix, fixT, new, newT
  if ahead > 0 then
    fix, fixT = written(1)
  end
  if got and got > 0 then
    local charge = min(got, max(2 * count - used, 0))
    if charge > 0 then
      add(slot, charge)
    end
    new, newT = written(from)
  elseif got and got < 0 then
    local rest = -got
    while size >= from and rest > 0 do
      local part = min(taken[size], rest)
      taken[size], rest = taken[size] - part, rest - part
      if taken[size] == 0 then
        size = size - 1
      end
    end
    if rest < -got then
      new, newT = written(1)
    end
  end
  return got ~= nil, answer, new, newT, fix, fixT
end
