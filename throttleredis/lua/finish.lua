-- store writes a value that holds until T, and a second longer.
local function store(key, value, T)
  if value == '' then
    call('DEL', key)
  else
    call('SET', key, value, 'PX', 1000 - floor(min(now - T, 0) / 1000))
  end
  wrote = true
end

-- question is ask i, and its limit.
local function question(i)
  local ask = ARGV[i + 1]
  local from = byte(ask, 3)
  return ask, sub(ask, from, from + 1 + byte(ask, from + 1))
end

-- decide is what the kind of ask i decides: as kinds, but that what cannot be
-- read is an answer too.
local function decide(i, kept, since)
  local ask, limit = question(i)
  if type(kept) == 'number' then
    return nil, pack('<BB', 6, kept)
  end
  local done, ok, answer, new, newT, fix, fixT = pcall(kinds[byte(limit) - FORMAT], kept, limit, ask, since, KEYS[i + 1])
  if done then
    return ok, answer, new, newT, fix, fixT
  elseif type(ok) == 'table' or sub(ok, 1, 12) ~= 'user_script:' then -- of Redis, not of Lua
    error(ok, 0)
  end
  return nil, pack('<BB', 6, MALFORMED)
end

-- one decides on one key, and returns the answer and whether it is none.
local function one(kept, since)
  local key = KEYS[2]
  local ok, answer, new, newT, fix, fixT = decide(1, kept, since)
  if ok == nil then
    return answer, true
  elseif not ok or not new or has(byte(ARGV[2], 2), REFUSED) > 0 then
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
      local ok
      ok, answers[i], new[i], newT[i], fix[i], fixT[i] = decide(i, kept[KEYS[i + 1]], since)
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
        kept[key], ends[key] = value ~= '' and value, T
      end
    end
    none = none or not known
    first = final + 1
  end
  for key, T in pairs(ends) do
    store(key, kept[key] or '', T)
  end
  return table.concat(answers), none
end

-- read_one is the value of the only key, or false, or what is wrong with it.
local function read_one()
  local kept = redis.pcall('GET', KEYS[2])
  if type(kept) ~= 'table' then
    return kept and flaw(kept) or kept
  elseif sub(kept.err, 1, 9) ~= 'WRONGTYPE' then
    error(kept)
  end
  return WRONG_TYPE
end

-- read_many is the same for all keys but logs, by their names. MGET takes a key
-- of another type for none.
local function read_many()
  local names, kept = {}, {}
  for i = 2, #KEYS do
    if sort ~= 1 or byte(ARGV[i], byte(ARGV[i], 3)) ~= 2 + FORMAT then
      names[#names + 1] = KEYS[i]
    end
  end
  local values = #names > 0 and call('MGET', unpack(names))
  for i, name in ipairs(names) do
    local value = values[i]
    if value then
      kept[name] = flaw(value) or value
    elseif call('EXISTS', name) == 1 then
      kept[name] = WRONG_TYPE
    end
  end
  return kept
end

local since, whose, before = 0, '', ''
if unfenced == 0 then
  since, whose = fenced(known)
  if not since then
    return whose
  end
  if whose ~= known then
    before = pack('<I7', since) .. whose
  elseif met > now or now - met >= 1000 then -- seldom, as the caller has to note it
    before = pack('<I7', since)
  end
end

local answer, none
if #KEYS == 2 then
  answer, none = one(sort ~= 1 and read_one(), since)
else
  answer, none = many(read_many(), since)
end
return pack('<I7B', none and real or now, #before) .. before .. answer
end

-- What the user of the caller may not do, and what Redis does not know, is answered
-- as where Redis sees it before the script runs, if nothing has been written.
local done, answer = pcall(decide_all)
if done then
  return answer
end
local text = type(answer) == 'table' and answer.err or tostring(answer)
for why, word in pairs({
  ['ACL failure'] = 'NOPERM ', ["can't run this command"] = 'NOPERM ', ["can't access at least one"] = 'NOPERM ',
  ['Unknown Redis command'] = 'NOCOMMAND ', ['Unknown command'] = 'NOCOMMAND ',
}) do
  if not wrote and string.find(text, why, 1, true) then
    return redis.error_reply(word .. text)
  end
end
error(answer)
