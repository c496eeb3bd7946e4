-- The fence is since when it counts, the replication id of the process that wrote
-- it, and whose it is: the run_id, when it was written and why, 48 bytes; and if
-- another process is expected, until when, and its run_id. Earlier versions wrote
-- neither when nor why, nor until when.
local NEW, LOST, EXPECTED, KEPT = 'n', 'l', 'e', 'k' -- why
local FENCES = { [101] = true, [109] = true, [141] = true, [156] = true }

-- line is a line of INFO with a number of 40 digits, or nil.
local function line(text, name)
  local from, to = string.find(text, name, 1, true)
  if to and byte(text, to + 41) == 13 then -- of the end of the line
    return sub(text, from, to + 40)
  end
end

-- refence writes a new fence, and returns as fenced does.
--
-- A process whose replication id has changed was a replica meanwhile, and what it
-- has may be older than what it granted. The exception is a primary whose last
-- replica has been gone for an hour: it forgets the id before, which one that was
-- promoted remembers for as long. The caller was answered here less than a minute
-- ago, or it cannot be told.
local function refence(kept, known, info, id)
  local process = line(call('INFO', 'server'), 'run_id:')
  if not id or not process then
    return nil, redis.error_reply('NOFENCE neither master_replid nor run_id is in INFO: use Unfenced')
  end
  process = sub(process, 8)
  local since, why = now + overlap, LOST
  local same, before = kept and sub(kept, 62, 101) == process, kept and parse('<I7', kept)
  local met_here = sub(known, 1, 40) == process
  if same and sub(kept, 8, 61) == id and #kept ~= 109 and #kept ~= 156 then -- of an earlier version
    if before > 0 or known == '' or met_here then
      since, why = min(before, since), KEPT
    end
  elseif same and met_here and sub(kept, 8, 61) ~= id and met <= now and met > now - 60 * skew
    and line(info, 'master_replid2:') == 'master_replid2:' .. string.rep('0', 40) then
    since, why = min(before, since), KEPT
  elseif kept and sub(kept, 117, 156) == process and parse('<I7', kept, 110) >= now then
    since, why = min(max(before, 1), since), EXPECTED
  elseif not kept and strict == 0 and (known == '' or met_here) then
    since, why = known == '' and met_since or 0, NEW
  end
  local whose = process .. pack('<I7', now) .. why
  if why == KEPT and #kept >= 109 then
    whose = sub(kept, 62, 109)
  end
  call('SET', KEYS[1], pack('<I7', since) .. id .. whose)
  return since, whose
end

-- fenced is the instant at which all that this process cannot know of is taken
-- to have been used, and whose the fence is. Zero: it knows all. Nil, and an
-- error: it cannot be told.
local function fenced(known)
  local kept = redis.pcall('GET', KEYS[1])
  if type(kept) == 'table' and sub(kept.err, 1, 9) ~= 'WRONGTYPE' then
    error(kept)
  elseif kept and (type(kept) == 'table' or not FENCES[#kept] or sub(kept, 8, 21) ~= 'master_replid:') then
    return nil, redis.error_reply('NOFENCE the key ' .. KEYS[1] .. ' is no fence that this version of throttleredis knows: ' ..
      'upgrade this process, or, if something else has written the key, delete it')
  end
  local info = call('INFO', 'replication')
  local id = line(info, 'master_replid:')
  if kept and #kept >= 109 and id == sub(kept, 8, 61) then
    local since, whose = parse('<I7', kept), sub(kept, 62, 109)
    -- What the caller was answered by another process counts, if that was before:
    -- by another clock, which where nothing was lost may be a minute ahead.
    local ahead = sub(whose, 48) == EXPECTED and 60 * skew or 0
    local counts = known == '' or sub(known, 1, 40) == sub(whose, 1, 40) or since > 0 and parse('<I7', whose, 41) + ahead > met
    if since <= now + overlap and counts then
      return since, whose
    end
  end
  return refence(kept, known, info, id)
end
