"""The steps of the Redis store in Lua: each is one atomic call of the server.

Here is the layout of the keys, all under one prefix. As Superset has it:

- `<channel>`: the stream of a channel; `full`: the firehose, the stream of all channels;
- `job-cancel:<job>`: whose job it is, until it ends, and whether it was cancelled.

And our own beside it:

- `job:<job>`: the job, a hash;
- `jobs:<channel>`, `deadlines`: the jobs that have not ended, of a channel and of all, by deadline.

Rules: JSON is never written here, for cjson turns `[]` into `{}` and rounds big integers; times
stay text, for Lua writes 14 digits of them; and the first write that can fail is the event itself,
so that an error leaves either nothing or a job that has ended with its event.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from gaq_middleware.core.commands import CANCELLED, LOST, PAGE, RETENTION, event_tail
from gaq_middleware.core.jobs import Status


@dataclass(frozen=True, slots=True)
class Script:
    """A script, and the name under which a server that has it runs it."""

    text: str
    sha: str


_CONSTANTS = f"""
local PENDING, RUNNING = [==[{event_tail(Status.PENDING)}]==], [==[{event_tail(Status.RUNNING)}]==]
local CANCELLED, LOST = [==[{CANCELLED}]==], [==[{LOST}]==]
local PAGE, RETENTION = {PAGE}, {RETENTION}
"""

_COMMON = """
local prefix, now, stream_limit, firehose_limit = unpack(ARGV, 1, 4)
local FIELDS = {'channel', 'head', 'tail', 'extra', 'last_id', 'status', 'deadline', 'life',
                'submitted', 'ended'}

-- Makes a key live so many milliseconds more, if it would not anyway.
local function keep(key, life)
  if redis.call('PTTL', key) < tonumber(life) then redis.call('PEXPIRE', key, life) end
end

local function last_id(stream)
  local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  return newest and newest[1] or '0-0'
end

-- Notes when a job is due. What is a day overdue has no record any more and goes.
local function schedule(channel, id, deadline, life)
  local long_ago = string.format('%.3f', tonumber(now) - RETENTION)
  for _, index in ipairs({prefix .. 'jobs:' .. channel, prefix .. 'deadlines'}) do
    redis.call('ZREMRANGEBYSCORE', index, '-inf', long_ago)
    redis.call('ZADD', index, deadline, id)
    keep(index, life)
  end
end

-- Writes that a job has ended. Nothing of this may fail once its event is out.
local function note_end(job, status, tail, attempt)
  job.status, job.tail, job.ended = status, tail, attempt
  redis.call('HSET', job.key, 'status', status, 'tail', tail, 'ended', attempt)
  redis.call('PEXPIRE', job.key, job.life)
  redis.pcall('ZREM', prefix .. 'jobs:' .. job.channel, job.id)
  redis.pcall('ZREM', prefix .. 'deadlines', job.id)
  if status ~= 'cancelled' then redis.call('DEL', prefix .. 'job-cancel:' .. job.id) end
end

local function finish(job, status, tail, attempt)
  local stream, firehose, data = prefix .. job.channel, prefix .. 'full', job.head .. tail
  redis.call('XADD', stream, 'MAXLEN', '~', stream_limit, '*',
             'data', data, 'gaq', last_id(stream))
  note_end(job, status, tail, attempt)
  redis.pcall('XADD', firehose, 'MAXLEN', '~', firehose_limit, '*', 'data', data)
  keep(stream, job.life)
  keep(firehose, job.life)
end

local function is_live(job) return job.status == 'pending' or job.status == 'running' end

-- Returns a job, or nil, and whether this look ended it. One that Superset has cancelled is noted
-- as cancelled without an event: who cancels publishes.
local function load(id)
  local key = prefix .. 'job:' .. id
  local values = redis.call('HMGET', key, unpack(FIELDS))
  if not values[1] then return nil, false end
  local job = {id = id, key = key}
  for place, name in ipairs(FIELDS) do job[name] = values[place] end
  if not is_live(job) then return job, false end
  local record = redis.call('GET', prefix .. 'job-cancel:' .. id)
  if record and record:find('"cancelled"%s*:%s*true') then
    note_end(job, 'cancelled', CANCELLED, '')
  elseif tonumber(job.deadline) <= tonumber(now) then
    finish(job, 'error', LOST, '')
    return job, true
  end
  return job, false
end

-- Ends at most so many overdue jobs of an index and returns how many. A patient one leaves out what
-- cannot be ended because a key of its is something else, so that the others are not.
local function end_overdue(index, limit, is_patient)
  local count = 0
  while count < limit do
    local due = redis.call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', 0, limit - count)
    if #due == 0 then break end
    for _, id in ipairs(due) do
      local is_good, job, has_ended = pcall(load, id)
      if not is_good and not (is_patient and tostring(job.err or job):find('WRONGTYPE')) then
        error(job)
      end
      if is_good and has_ended then
        count = count + 1
      elseif is_good and job and is_live(job) then
        redis.call('ZADD', index, job.deadline, id)
      else
        redis.call('ZREM', index, id)
      end
    end
  end
  return count
end

local function shown(job) return {'ok', job.head, job.tail, job.extra, job.last_id} end
"""


def _script(body: str) -> Script:
    text = _CONSTANTS + _COMMON + body
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


SUBMIT = _script("""
local id, deadline, ttl, life, attempt, channel, head, extra, record = unpack(ARGV, 5)
local job, record_key = load(id), prefix .. 'job-cancel:' .. id
if job then return {job.submitted == attempt and 'ok' or 'exists', job.last_id} end
if redis.call('EXISTS', record_key) == 1 then return {'exists', '0-0'} end
local cursor, key = last_id(prefix .. channel), prefix .. 'job:' .. id
schedule(channel, id, deadline, life)
redis.call('HSET', key, 'channel', channel, 'head', head, 'tail', PENDING, 'extra', extra,
           'last_id', cursor, 'status', 'pending', 'deadline', deadline, 'life', life,
           'submitted', attempt)
redis.call('PEXPIRE', key, life)
redis.call('SET', record_key, record, 'PX', ttl)
return {'ok', cursor}
""")

GET = _script("""
local job, id = load(ARGV[5]), ARGV[5]
if job then return shown(job) end
local record = redis.call('GET', prefix .. 'job-cancel:' .. id)
return record and {'foreign', record} or {'missing'}
""")

KEEP = _script("""
local id, deadline, ttl, life, is_start = unpack(ARGV, 5)
local job = load(id)
if not job then return 'missing' end
if not is_live(job) then return 'ended' end
if tonumber(deadline) < tonumber(job.deadline) then deadline = job.deadline end
schedule(job.channel, id, deadline, life)
redis.call('HSET', job.key, 'deadline', deadline)
if is_start == '1' then redis.call('HSET', job.key, 'status', 'running', 'tail', RUNNING) end
keep(job.key, life)
keep(prefix .. 'job-cancel:' .. id, ttl)
return 'ok'
""")

FINISH = _script("""
local id, _, _, life, attempt, status, tail = unpack(ARGV, 5)
local job = load(id)
if not job then return 'missing' end
if job.ended == attempt then return 'ok' end
if not is_live(job) then return 'ended' end
job.life = life
finish(job, status, tail, attempt)
return 'ok'
""")

# A job that only Superset's record tells of is ours from its cancel on, if the record is still the
# one that the caller has read and found to be its own.
CANCEL = _script("""
local id, _, ttl, life, attempt, channel, head, record, expected = unpack(ARGV, 5)
local job, record_key = load(id), prefix .. 'job-cancel:' .. id
if not job then
  local found = redis.call('GET', record_key)
  if not found then return {'missing'} end
  if expected == '' or found ~= expected then return {'foreign', found} end
  job = {id = id, key = prefix .. 'job:' .. id, channel = channel, head = head, extra = '{}',
         last_id = last_id(prefix .. channel), status = 'pending'}
end
if job.head ~= head then return {'stranger'} end
if job.ended == attempt then return shown(job) end
if not is_live(job) then return {'ended'} end
job.life = life
finish(job, 'cancelled', CANCELLED, attempt)
if not job.submitted then
  redis.call('HSET', job.key, 'channel', channel, 'head', head, 'extra', job.extra,
             'last_id', job.last_id)
end
redis.call('SET', record_key, record, 'PX', ttl)
return shown(job)
""")

# Returns a page of the stream, and 1 if its first entry is another writer's and some before it were
# trimmed after the cursor. On server 7 a stream counts what it was ever given; on 6.2 one at its
# limit has been trimmed. An entry of ours tells by itself which came before it. Superset does not
# prolong the life that we gave to a stream, so whoever reads its entries does.
READ = _script("""
local channel, cursor, limit = unpack(ARGV, 5)
local stream = prefix .. channel
end_overdue(prefix .. 'jobs:' .. channel, PAGE, false)
local start = cursor == '' and '-' or '(' .. cursor
if cursor == '18446744073709551615-18446744073709551615' then start = cursor end
local page = redis.call('XRANGE', stream, start, '+', 'COUNT', limit)
if page[1] and page[#page][2][3] ~= 'gaq' and redis.call('PTTL', stream) >= 0 then
  keep(stream, RETENTION * 1000)
end
if cursor == '' or not page[1] or page[1][2][3] == 'gaq'
   or redis.call('XRANGE', stream, '-', cursor, 'COUNT', 1)[1] then
  return {page, 0}
end
local info, values = redis.call('XINFO', 'STREAM', stream), {}
for place = 1, #info, 2 do values[info[place]] = info[place + 1] end
local added, length = values['entries-added'], values.length
local is_trimmed = added and added > length or not added and length >= tonumber(stream_limit)
return {page, is_trimmed and 1 or 0}
""")

REAP = _script("return end_overdue(prefix .. 'deadlines', tonumber(ARGV[5]), true)")
