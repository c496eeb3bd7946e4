local min, max, skew = math.min, math.max, 1000000 -- skew as in package limit
local overlap, at = parse('<I7I7', head, 18)
local known = sub(head, 32)
-- A question that is put again, with a state carried over from another limit, is
-- decided as of the time of that state, if that has just been: within a minute.
local carries = at <= now and at > now - 60 * skew
local real = now
if carries then
  now = at
end

-- The bits of what is asked.
local PEEK, BACK, DEBT, PART, CHANGED, REFUSED = 1, 2, 4, 8, 16, 32
local has = bit.band

-- kinds[k](value, limit, ask, since) is, for a kind of limit: whether the ask
-- passes (nil: that cannot be told here); the answer; the value to keep if all
-- pass, and when it expires; the same for when one is refused. No value: there
-- is nothing to write. An empty one: the key owes nothing.
local kinds = {}

-- state is the answer that gives a state.
local function state(T, N, P)
  if T <= now then
    return '\0'
  elseif P and P > 0 then
    return pack('<BI7I7I7', 2, T, N, P)
  end
  return pack('<BI7I7', 1, T, N)
end

-- value is a state as it is kept, the limit that it was written under first.
local function value(limit, T, N, P)
  if T <= now then
    return ''
  elseif P and P > 0 then
    return limit .. pack('<I7I7I7', T, N, P)
  end
  return limit .. pack('<I7I7', T, N)
end

-- read is the state in a value, and whether it was carried over from another
-- limit, as the caller has worked out. No state: that is for the caller to do.
local function read(kept, limit, flags, ask)
  if not kept or #kept < 16 then
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
  -- A length of zero is of kinds that keep no state: they begin afresh.
  local length = byte(kept, 2)
  if length == 0 or parse('<I7', kept, 3 + length) <= now then
    return 0, 0, 0
  end
  if carries and has(flags, CHANGED) > 0 then
    local from = byte(ask, 3) + #limit
    if sub(ask, from + 21) == kept then
      local T, N, P = parse('<I7I7I7', ask, from)
      return T, N, P, true
    end
  end
end

-- other is the answer that a state was written under another limit.
local function other(kept)
  return nil, pack('<BI4', 4, #kept) .. kept
end

-- identity is a line of INFO with a number of 40 digits, or nil.
local function identity(section, name)
  local text = call('INFO', section)
  local from, to = string.find(text, name, 1, true)
  if to and byte(text, to + 41) == 13 then -- of the end of the line
    return sub(text, from, to + 40)
  end
end

-- refence writes a new fence, and returns as fenced does.
local function refence(kept, known, id)
  local process, since = identity('server', 'run_id:'), now + overlap
  if not id or not process then
    return
  end
  process = sub(process, 8)
  if kept and sub(kept, 62, 101) == process then -- it has only a new id
    if parse('<I7', kept) > 0 or known == '' or known == process then
      since = min(parse('<I7', kept), since)
    end
  elseif kept and sub(kept, 102, 141) == process then -- handed over
    since = min(max(parse('<I7', kept), 1), since)
  elseif not kept and strict == 0 and (known == '' or known == process) then
    since = 0
  end
  call('SET', KEYS[1], pack('<I7', since) .. id .. process)
  return since, process
end

-- fenced is the instant at which all that this process cannot know of is taken
-- to have been used, and the process. Zero: it knows all.
local function fenced(kept, known)
  -- The replication id changes whenever a replica is promoted and a process
  -- starts, and now and then besides. It is the cheapest to ask for.
  local id = identity('replication', 'master_replid:')
  if kept and id == sub(kept, 8, 61) then
    local since, process = parse('<I7', kept), sub(kept, 62, 101)
    if since <= now + overlap and (since > 0 or known == '' or known == process) then
      return since, process
    end
  end
  return refence(kept, known, id)
end
