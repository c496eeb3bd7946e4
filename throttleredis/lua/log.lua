-- SlidingLog. The value is how many records have been dropped, what was taken
-- before the rest, and the fence under which it was written; then the records,
-- each an instant and what was taken up to it. Only as much is read as bisection
-- needs. The answer is what was taken when, as far as it matters.
local HEAD, RECORD = 21, 14

kinds[2] = function(_, _, ask, since, key)
  local flags = byte(ask, 2)
  local count, n, least, period = parse('<dddd', ask, 4)
  local length, first, base, mark, size = redis.pcall('STRLEN', key), 0, 0, 0, 0
  local last, total = 0, 0 -- the last record; nothing was taken
  local spread             -- the records of a fence
  local function record(i)
    if i == size - 1 then
      return last, total
    elseif spread then
      return spread[i][1], spread[i][2]
    end
    local from = HEAD + RECORD * (first + i)
    return parse('<I7I7', call('GETRANGE', key, from, from + RECORD - 1))
  end
  if type(length) == 'table' then
    if sub(length.err, 1, 9) ~= 'WRONGTYPE' then
      error(length)
    end
    return nil, pack('<BB', 6, WRONG_TYPE)
  elseif length > 0 or call('EXISTS', key) == 1 then
    local version, records
    if length >= HEAD + RECORD and (length - HEAD) % RECORD == 0 then
      first, version, base, mark = parse('<I6BI7I7', call('GETRANGE', key, 0, HEAD - 1))
      records = (length - HEAD) / RECORD - first
    end
    if not version or version == FORMAT and records < 1 then
      return nil, pack('<BB', 6, MALFORMED)
    elseif version ~= FORMAT then
      return nil, pack('<BB', 6, OTHER_FORMAT)
    end
    last, total = record(records - 1)
    size = records
  end

  -- sum is what was taken before record i.
  local function sum(i)
    if i == 0 then
      return base
    end
    local _, upto = record(i - 1)
    return upto
  end
  -- search is the first record from low on that is so, or size.
  local function search(low, so)
    local step, high = 1, low
    while high < size and not so(record(high)) do -- most often it is near
      low, high, step = high + 1, high + step, 2 * step
    end
    high = min(high, size)
    while low < high do
      local middle = floor((low + high) / 2)
      if so(record(middle)) then
        high = middle
      else
        low = middle + 1
      end
    end
    return low
  end

  local ahead = last > now + skew
  if ahead then
    local latest = now + skew
    size = search(0, function(at) return at > latest end) + 1
    last = latest
  end
  local t = max(now, last)
  local gone = search(0, function(at) return at + period > t end)
  local used = total - sum(gone)

  -- At the fence all had been used, evenly over a Period.
  if since > 0 and now < since + period and mark ~= since then
    local extra, parts = min(max(used - count, 0), count), min(count, 32)
    spread, size, base, mark, gone = {}, 0, 0, since, 0
    for i = 1, parts do
      local at, rest = muldiv(period, i, parts)
      if rest > 0 then
        at = at + 1
      end
      last, total = max(since - period + at, 1), muldiv(count, i, parts)
      spread[i - 1] = { last, total }
    end
    size, total = parts, total + extra
    t = max(now, last)
    gone = search(0, function(at) return at + period > t end)
    used = total - sum(gone)
  end

  local got = grant(flags, n, least, max(count - used, 0), used > count)
  local back, left = 0, size -- what is given back, and the records that stay
  if got and got < 0 then
    back = min(used, -got)
    left = gone
    if back < used then
      left = search(gone, function(_, upto) return upto >= total - back end) + 1
    end
  end
  local answer = '\0'
  if used > 0 then
    local split = size - 1
    if not got and least <= count then
      local leave = total + least - count
      split = search(gone, function(_, upto) return upto >= leave end)
    elseif got and got < 0 and left > gone then
      split = left - 1
    end
    local at, upto = record(split)
    answer = pack('<BBI7I7I7I7', 3, 2, at, upto - sum(gone), last, total - upto)
  end

  local function expire()
    call('PEXPIRE', key, 1000 - floor(min(now - last - period, 0) / 1000))
  end
  -- write keeps the records [from, to), of which the last is last and total, and
  -- what is charged besides.
  local function write(from, to, charge)
    local body = { pack('<I6BI7I7', 0, FORMAT, sum(from), mark) }
    if spread then
      for i = from, to - 2 do
        body[#body + 1] = pack('<I7I7', spread[i][1], spread[i][2])
      end
    elseif to - 1 > from then
      body[2] = call('GETRANGE', key, HEAD + RECORD * (first + from), HEAD + RECORD * (first + to - 1) - 1)
    end
    if charge > 0 and last ~= t and to > from then
      body[#body + 1] = pack('<I7I7', last, total)
    end
    if charge > 0 then
      last, total = t, total + charge
    elseif to == from then
      call('DEL', key)
      wrote = true
      return
    end
    body[#body + 1] = pack('<I7I7', last, total)
    call('SET', key, table.concat(body))
    wrote = true
    expire()
  end
  -- append drops the records before gone, and remembers what is charged.
  local function append(charge)
    if gone > 0 then
      call('SETRANGE', key, 0, pack('<I6BI7I7', first + gone, FORMAT, sum(gone), mark))
      wrote = true
    end
    local record = pack('<I7I7', t, total + charge)
    if charge > 0 and last == t and size > gone then
      call('SETRANGE', key, HEAD + RECORD * (first + size - 1), record)
    elseif charge > 0 then
      call('APPEND', key, record)
    end
    wrote = true
    last = t
    expire()
  end

  local new, fix
  if got and got > 0 then
    local charge = min(got, max(2 * count - used, 0))
    if ahead or spread or length == 0 or first + gone > max(size - gone, 64) then
      new = function() write(gone, size, charge) end
    elseif charge > 0 or gone > 0 then
      new = function() append(charge) end
    end
  elseif back > 0 then
    new = function()
      if left > gone then
        last, total = record(left - 1), total - back
      elseif left > 0 then
        last, total = record(left - 1)
      end
      write(0, left, 0)
    end
  end
  if ahead and not spread then
    fix = function() write(0, size, 0) end
  end
  return got ~= nil, answer, new, 0, fix, 0
end
