local function run()
  local names, kept = KEYS, {}
  if logs > 0 then -- they are long, and read piece by piece
    names = {}
    for i = 1, #KEYS do
      if i == 1 or byte(ARGV[2 * i - 1]) ~= 2 then
        names[#names + 1] = KEYS[i]
      end
    end
  end
  local values = call('MGET', unpack(names))
  for i = 2, #names do
    kept[names[i]] = values[i]
  end

  local since, process = 0, ''
  if unfenced == 0 then
    since, process = fenced(values[1], ARGV[1], strict > 0, overlap)
    if not since then
      return redis.error_reply('NOFENCE neither master_replid nor run_id is in INFO: use Unfenced')
    end
  end

  -- keep remembers what to write; a log writes at once.
  local ends = {}
  local function keep(key, value, T)
    if type(value) == 'function' then
      value()
    elseif value and (value ~= '' or kept[key]) then
      kept[key], ends[key] = value, T
    end
  end

  local answers = { pack('<I7B', now, #process), process }
  local first, last = 1, #KEYS - 1
  local ok, new, newT, fix, fixT = {}, {}, {}, {}, {}
  while first <= last do
    local size = byte(ARGV[2 * first + 2])
    local all = has(byte(ARGV[2 * first + 2], 2), REFUSED) == 0
    local known = true
    for i = first, first + size - 1 do
      local limit, answer = ARGV[2 * i + 1]
      ok[i], answer, new[i], newT[i], fix[i], fixT[i] =
        kinds[byte(limit)](kept[KEYS[i + 1]], limit, ARGV[2 * i + 2], since, KEYS[i + 1])
      all = all and ok[i]
      known = known and ok[i] ~= nil
      answers[#answers + 1] = answer
    end
    if known then
      for i = first, first + size - 1 do
        if all and new[i] then
          keep(KEYS[i + 1], new[i], newT[i])
        else
          keep(KEYS[i + 1], fix[i], fixT[i])
        end
      end
    end
    if not known then
      answers[1] = pack('<I7B', real, #process)
    end
    first = first + size
  end

  for key, T in pairs(ends) do
    if kept[key] == '' then
      call('DEL', key)
    else
      call('SET', key, kept[key], 'PX', string.format('%.0f', math.ceil(max(T - now, 0) / 1000) + 1000))
    end
  end
  return table.concat(answers)
end

return run()
