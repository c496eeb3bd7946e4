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
local PEEK, BACK, DEBT, PART, CHANGED, REFUSED, CONVERT, STAYS = 1, 2, 4, 8, 16, 32, 64, 128
local has = bit.band

-- What is wrong with a value: a key of another type; bytes that are no state; a
-- state in the format of another version. FORMAT is that of this one: the first
-- byte of a value, beside the kind, and the seventh of a log.
local WRONG_TYPE, MALFORMED, OTHER_FORMAT = 1, 2, 3
local FORMAT = 0 -- of 0, 8 ... 48

-- flaw is what is wrong with the value of a key, or nil.
local function flaw(kept)
  local size, kind, length = #kept, byte(kept, 1, 2)
  if not length then
    return MALFORMED
  end
  local version = kind - kind % 8
  kind = kind - version
  if kind == 7 or kind == 2 or version > 48 then
    return MALFORMED
  elseif version ~= FORMAT then
    return OTHER_FORMAT
  elseif kind == 4 then
    return (length > 0 or size < 30 or (size - 16) % 14 > 0) and MALFORMED or nil
  end
  return (length < 2 or size ~= length + 16 and size ~= length + 23) and MALFORMED or nil
end

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
