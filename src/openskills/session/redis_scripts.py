"""What a Redis server does in one step, in its own language. Plain text.

openskills:{OWNER}:ID:head     a hash: revision, begun, updated, state, and `birth`, a word that each beginning has anew
openskills:{OWNER}:ID:log      a list: the events, as JSON, in their order
openskills:{OWNER}:ID:places   a hash: from the id of an event to its number
openskills:{OWNER}:sessions    a hash: from ID to what a list says about the conversation, as JSON

OWNER and ID are digests of ids. What is in braces decides where a cluster keeps a key: everything of one user lies
together, so that one step can reach it.
"""

from openskills.session.head import digest
from openskills.session.store import SessionKey

PREFIX = "openskills:"
SCHEMA = f"{PREFIX}schema"
VERSION = 1

LOOK = """
local head = redis.call('HMGET', KEYS[1], 'revision', 'begun', 'updated', 'state', 'birth')
local place = redis.call('HGET', KEYS[3], ARGV[1])
return {head, place and redis.call('LINDEX', KEYS[2], tonumber(place) - 1)}
"""
"""Keys: head, log, places. Argument: an event's id. Gives the fields of the head, and the event if the log has it."""

READ = """
local head = redis.call('HMGET', KEYS[1], 'revision', 'begun', 'updated', 'state', 'birth')
return {head, redis.call('LRANGE', KEYS[2], ARGV[1], -1)}
"""
"""Keys: head, log. Argument: how many events are known. Gives the fields of the head, and the other events."""

WRITE = """
local now = redis.call('HMGET', KEYS[1], 'revision', 'birth')
if (now[1] or '0') ~= ARGV[1] or (now[2] or ARGV[2]) ~= ARGV[2] then
    return 0
end
redis.call('RPUSH', KEYS[2], ARGV[4])
redis.call('HSET', KEYS[3], ARGV[3], ARGV[5])
redis.call('HSET', KEYS[1], 'birth', ARGV[2], 'revision', ARGV[5])
redis.call('HSET', KEYS[1], 'begun', ARGV[6], 'updated', ARGV[7], 'state', ARGV[8])
redis.call('HSET', KEYS[4], ARGV[9], ARGV[10])
return 1
"""
"""Keys: head, log, places, sessions. Arguments: the revision and the birth that were seen; the event's id and JSON; the
new revision, the times, the state; ID, and what a list says. Gives 0, and does nothing, when somebody was faster."""

DELETE = """
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('UNLINK', KEYS[2], KEYS[3])
return redis.call('DEL', KEYS[1])
"""
"""Keys: head, log, places, sessions. Argument: ID. Gives how many conversations are gone."""


def sessions_key(app: str, user: str) -> str:
    """The key of a user's list."""
    return f"{PREFIX}{{{digest(app, user)}}}:sessions"


def session_keys(key: SessionKey) -> tuple[str, str, str, str]:
    """The keys of a conversation, in the order in which scripts want them: head, log, places, sessions."""
    base = f"{PREFIX}{{{digest(key.app, key.user)}}}:{session_id(key)}"
    return f"{base}:head", f"{base}:log", f"{base}:places", sessions_key(key.app, key.user)


def session_id(key: SessionKey) -> str:
    """What a conversation is called among those of its user."""
    return digest(key.app, key.user, key.session)
