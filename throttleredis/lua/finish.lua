-- store writes a value that holds until T, and a second longer.
local function store(key, value, T)
  if value == '' then
    call('DEL', key)
  else
    call('SET', key, value, 'PX', 1000 - floor(min(now - T, 0) / 1000))
  end
end

-- question is ask i, and its limit.
local function question(i)
  local ask = ARGV[i + 1]
  local from = byte(ask, 3)
  return ask, sub(ask, from, from + 1 + byte(ask, from + 1))
end

-- one decides on one key, and returns the answer and whether it is none.
local function one(kept, since)
  local ask, limit = question(1)
  local key = KEYS[2]
  local ok, answer, new, newT, fix, fixT = kinds[byte(limit)](kept, limit, ask, since, key)
  if ok == nil then
    return answer, true
  elseif not ok or not new or has(byte(ask, 2), REFUSED) > 0 then
    new, newT = fix, fixT
  end
  if type(new) == 'function' then -- a log writes by itself
    new()
  elseif new and (new ~= '' or kept) then
    store(key, new, newT)
  end
  return answer
end

-- many decides on groups of keys, one after the other, and writes at the end.
local function many(kept, since)
  local answers, none = {}, false
  local new, newT, fix, fixT, ends = {}, {}, {}, {}, {}
  local first, last = 1, #KEYS - 1
  while first <= last do
    local final = first + byte(ARGV[first + 1]) - 1
    local all, known = has(byte(ARGV[first + 1], 2), REFUSED) == 0, true
    for i = first, final do
      local ask, limit = question(i)
      local key, ok = KEYS[i + 1], nil
      ok, answers[i], new[i], newT[i], fix[i], fixT[i] = kinds[byte(limit)](kept[key], limit, ask, since, key)
      all = all and ok
      known = known and ok ~= nil
    end
    for i = first, known and final or 0 do
      local key, value, T = KEYS[i + 1], fix[i], fixT[i]
      if all and new[i] then
        value, T = new[i], newT[i]
      end
      if type(value) == 'function' then
        value()
      elseif value and (value ~= '' or kept[key]) then
        kept[key], ends[key] = value, T
      end
    end
    none = none or not known
    first = final + 1
  end
  for key, T in pairs(ends) do
    store(key, kept[key], T)
  end
  return table.concat(answers), none
end

local since, process = 0, ''
if unfenced == 0 then
  since, process = fenced(call('GET', KEYS[1]), known)
  if not since then
    return redis.error_reply('NOFENCE neither master_replid nor run_id is in INFO: use Unfenced')
  elseif process == known then
    process = ''
  end
end

local answer, none
if #KEYS == 2 then
  answer, none = one(sort ~= 1 and call('GET', KEYS[2]), since)
else
  local names, kept = KEYS, {}
  if sort == 1 then -- they are long, and read piece by piece
    names = {}
    for i = 2, #KEYS do
      if byte(ARGV[i], byte(ARGV[i], 3)) ~= 2 then
        names[#names + 1] = KEYS[i]
      end
    end
  end
  if #names > 0 then
    local values = call('MGET', unpack(names))
    for i = 1, #names do
      kept[names[i]] = values[i]
    end
  end
  answer, none = many(kept, since)
end
return pack('<I7B', none and real or now, #process) .. process .. answer
