-- Runs each command that the scripts run, on the key KEYS[2] that no limit has,
-- and returns the first that fails, and why.
local key = KEYS[2]
for _, command in ipairs({
  { 'TIME' }, { 'GET', key }, { 'MGET', key }, { 'EXISTS', key }, { 'STRLEN', key },
  { 'SET', key, 'x', 'PX', '1000' }, { 'GETRANGE', key, '0', '0' }, { 'SETRANGE', key, '0', 'y' },
  { 'APPEND', key, 'z' }, { 'PEXPIRE', key, '1000' }, { 'DEL', key },
}) do
  local answer = redis.pcall(unpack(command))
  if type(answer) == 'table' and answer.err then
    return command[1] .. ' ' .. answer.err
  end
end
return ''
