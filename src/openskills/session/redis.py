"""A session store in Redis, for many machines, as durable as the server. Needs the extra `redis`.

openskills:{OWNER}:ID:head     a hash: revision, begun, updated, state, and `birth`, unique per creation of a session
openskills:{OWNER}:ID:log      a list: the events as JSON, in order
openskills:{OWNER}:ID:places   a hash: event id to number
openskills:{OWNER}:ID:lease    a hash: epoch, holder (empty after a release) and expiry in milliseconds; kept for ever
openskills:{OWNER}:sessions    a hash: ID to the list entry of the session, as JSON

OWNER and ID are digests of ids. The part in braces is the hash tag of a cluster: all keys of one user are on one node,
so that a script can reach them. All changes are made by scripts, which run atomically.
"""

import asyncio
import json
import random
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple, Protocol, cast
from uuid import uuid4

from openskills.arguments import check_arguments
from openskills.concurrency import LoopLocal
from openskills.errors import (
    InvalidArgument,
    LeaseLost,
    MissingExtra,
    SessionInUse,
    SessionsUnavailable,
    SkillError,
)
from openskills.session.events import Event, check_id, event_from_json, event_to_json
from openskills.session.store import (
    AppendEventHook,
    AppendResult,
    LeaseRecord,
    Session,
    SessionHead,
    SessionInfo,
    SessionKey,
    SessionLease,
    advance_head,
    digest_ids,
    result_from_stored,
    session_id,
    sort_latest_first,
    state_to_json,
    strip_credentials,
    to_milliseconds,
)
from openskills.sql import find_missing_steps

PREFIX = "openskills:"
SCHEMA = f"{PREFIX}schema"
VERSION = 2
"""Version 2 added leases."""

LOOKUP = """
local head = redis.call('HMGET', KEYS[1], 'revision', 'begun', 'updated', 'state', 'birth')
local place = redis.call('HGET', KEYS[3], ARGV[1])
local event = place and redis.call('LINDEX', KEYS[2], tonumber(place) - 1)
return {head, event, redis.call('HMGET', KEYS[4], 'epoch', 'holder')}
"""
"""Keys: head, log, places, lease. Argument: an event id. Returns the fields of the head, the event if it is stored, and
the epoch and holder of the lease."""

READ = """
local head = redis.call('HMGET', KEYS[1], 'revision', 'begun', 'updated', 'state', 'birth')
return {head, redis.call('LRANGE', KEYS[2], ARGV[1], -1)}
"""
"""Keys: head, log. Argument: the number of known events. Returns the fields of the head, and the other events."""

WRITE = """
if ARGV[11] ~= '' then
    local lease = redis.call('HMGET', KEYS[5], 'epoch', 'holder')
    if lease[1] ~= ARGV[11] or lease[2] == '' then
        return {lease[2] or ''}
    end
end
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
"""Keys: head, log, places, sessions, lease. Arguments: the expected revision and birth; the event's id and JSON; the
new revision, the times, the state; ID and the list entry; the epoch or nothing. Returns 0, and does nothing, if the
session has changed, and a table with the holder if the lease of this epoch has ended."""

CLOCK = "local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) "

ACQUIRE = f"""
{CLOCK}
local lease = redis.call('HMGET', KEYS[2], 'epoch', 'holder', 'expires')
local left = tonumber(lease[3] or '0') - now
if lease[2] and lease[2] ~= '' and lease[2] ~= ARGV[1] and left > 0 then
    return {{0, lease[2], left}}
end
local epoch = redis.call('HINCRBY', KEYS[2], 'epoch', 1)
redis.call('HSET', KEYS[2], 'holder', ARGV[1], 'expires', string.format('%.0f', now + ARGV[2]))
return {{epoch, redis.call('HMGET', KEYS[1], 'revision', 'begun', 'updated', 'state', 'birth'), 0}}
"""
"""Keys: head, lease. Arguments: the holder, and the milliseconds of the lease. Returns the epoch and the fields of the
head; or 0, the other holder, and how many milliseconds its lease lasts."""

RENEW = f"""
{CLOCK}
local lease = redis.call('HMGET', KEYS[1], 'epoch', 'holder')
if lease[1] ~= ARGV[1] or lease[2] == '' then
    return {{lease[2] or ''}}
end
redis.call('HSET', KEYS[1], 'expires', string.format('%.0f', now + ARGV[2]))
return 1
"""
"""Key: lease. Arguments: the epoch, and the milliseconds from now. Returns a table with the holder if it has ended."""

RELEASE = """
if redis.call('HGET', KEYS[1], 'epoch') == ARGV[1] then
    redis.call('HSET', KEYS[1], 'holder', '')
end
"""
"""Key: lease. Argument: the epoch."""

DELETE = """
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('UNLINK', KEYS[2], KEYS[3])
return redis.call('DEL', KEYS[1])
"""
"""Keys: head, log, places, sessions. Argument: ID. Returns the number of deleted sessions."""


def sessions_key(app: str, user: str) -> str:
    return f"{PREFIX}{{{digest_ids(app, user)}}}:sessions"


def session_keys(key: SessionKey) -> tuple[str, str, str, str, str]:
    """The keys of a session in the order of the scripts: head, log, places, sessions, lease."""
    base = f"{PREFIX}{{{digest_ids(key.app, key.user)}}}:{session_id(key)}"
    return f"{base}:head", f"{base}:log", f"{base}:places", sessions_key(key.app, key.user), f"{base}:lease"


_CONNECTIONS = 10
_CONNECT_TIMEOUT = 30.0
_ANSWER_TIMEOUT = 60.0


class _RedisScript(Protocol):
    async def __call__(self, keys: Sequence[str], args: Sequence[str | int]) -> Any: ...


class _AsyncRedis(Protocol):
    def register_script(self, script: str) -> _RedisScript: ...
    async def hvals(self, name: str) -> list[bytes]: ...
    async def set(self, name: str, value: int, *, nx: bool = False) -> Any: ...
    async def get(self, name: str) -> bytes | None: ...
    async def aclose(self) -> None: ...


class RedisClient:
    """A Redis client per event loop. `place` names the server in errors, without the password."""

    def __init__(self, url: str, place: str) -> None:
        self.place = place
        self._url = url
        self._clients = LoopLocal[_AsyncRedis](self._connect)

    async def run(self, script: str, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """Run a script atomically and return its result."""
        client = await self._clients.get()
        with translate_redis_errors(self.place):
            return await client.register_script(script)(keys=keys, args=arguments)

    async def values(self, key: str) -> list[bytes]:
        client = await self._clients.get()
        with translate_redis_errors(self.place):
            return await client.hvals(key)

    async def close(self) -> None:
        """Close the connections of the running loop; the next use opens new ones."""
        client = await self._clients.pop()
        if client is not None:
            with translate_redis_errors(self.place):
                await client.aclose()

    async def _connect(self) -> _AsyncRedis:
        client = self._create_client()
        try:
            with translate_redis_errors(self.place):
                await client.set(SCHEMA, VERSION, nx=True)
                found = int(await client.get(SCHEMA) or 0)
            # A newer schema version is refused, as it is for tables.
            if find_missing_steps(found, place=self.place, steps=((),) * VERSION):
                # Older versions do not know leases: from now on they refuse this database.
                with translate_redis_errors(self.place):
                    await client.set(SCHEMA, VERSION)
        except BaseException:
            await client.aclose()
            raise
        return client

    def _create_client(self) -> _AsyncRedis:
        redis = _import_redis()
        try:
            pool = redis.BlockingConnectionPool.from_url(
                self._url,
                max_connections=_CONNECTIONS,
                timeout=_CONNECT_TIMEOUT + _ANSWER_TIMEOUT,
                socket_connect_timeout=_CONNECT_TIMEOUT,
                socket_timeout=_ANSWER_TIMEOUT,
            )
            # Checks the options of the URL; it does not connect yet.
            pool.make_connection()
        except (ValueError, TypeError):
            # The original message would repeat parts of the URL, possibly of the password.
            hint = "in user names and passwords write / ? # @ % as %2F %3F %23 %40 %25"
            raise InvalidArgument("url", f"{self.place} has an invalid URL; {hint}") from None
        return cast("_AsyncRedis", redis.Redis.from_pool(pool))


def _import_redis() -> Any:
    try:
        import redis.asyncio
    except ImportError:
        raise MissingExtra("redis", "a session store in Redis") from None
    return redis.asyncio


@contextmanager
def translate_redis_errors(place: str) -> Generator[None]:
    """Raise errors of the server and of the connection as `SkillError`."""
    from redis import exceptions

    try:
        yield
    except (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError) as error:
        message = f"{place} refused the request: {error}; check the user name and the password"
        raise SkillError(message, store=place) from error
    except (exceptions.BusyLoadingError, exceptions.ReadOnlyError, exceptions.TryAgainError) as error:
        raise SessionsUnavailable(f"{place} is temporarily unavailable: {error}; try again", store=place) from error
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
        message = f"{place} cannot be reached, or the connection was lost: {error}; check that it is running"
        raise SessionsUnavailable(message, store=place) from error
    except exceptions.RedisError as error:
        raise SkillError(f"{place} refused the request: {error}", store=place) from error


TRIES = 200


class _SessionSnapshot(NamedTuple):
    """The head of a session; `birth` differs after a session was deleted and created again."""

    head: SessionHead | None
    birth: str


@check_arguments
class RedisSessionStore:
    """A `SessionStore` in a Redis server, `redis://user:password@host:port/database`.

    The first use in an event loop connects. Each loop has its own connections: `close` them before the loop ends.
    Raises `SessionsUnavailable` when the server cannot be reached. Appends use optimistic locking: a hook may be called
    several times for an event, each time with the current state, and its last result counts.
    """

    def __init__(self, url: str, hook: AppendEventHook | None = None) -> None:
        self._hook = hook
        self._place = f"the session store {strip_credentials(url)}"
        self._client = RedisClient(url, self._place)

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        fields, bodies = await self._client.run(READ, session_keys(key)[:2], [max(after, 0)])
        head = _parse_snapshot(key, fields).head
        return head.build_session([event_from_json(body) for body in bodies], after=after) if head else None

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        keys = session_keys(key)
        for number in range(TRIES):
            fields, stored, lease = await self._client.run(LOOKUP, (*keys[:3], keys[4]), [event.id])
            if epoch is not None:
                LeaseRecord(int(lease[0] or 0), (lease[1] or b"").decode(), 0).check_epoch(key, epoch)
            seen = _parse_snapshot(key, fields)
            if seen.head and stored:
                return result_from_stored(seen.head, stored)
            done, after = advance_head(key, seen.head, event, expected=expected, hook=self._hook)
            arguments = _build_write_arguments(seen, after, done.event)
            written = await self._client.run(WRITE, keys, [*arguments, "" if epoch is None else epoch])
            if isinstance(written, list):
                raise LeaseLost(key.session, epoch or 0, _decode_holder(cast("list[bytes]", written)))
            if written:
                return done
            # Another append was faster; retry with a growing random delay.
            await asyncio.sleep(random.random() * 0.001 * min(number, 50))  # noqa: S311  not for cryptography
        message = f"{self._place}: too many concurrent appends to session {key.session!r}; try again"
        raise SessionsUnavailable(message)

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        owner = sessions_key(check_id("app", app), check_id("user", user))
        return sort_latest_first([_parse_info(app, user, value) for value in await self._client.values(owner)])

    async def delete(self, key: SessionKey) -> bool:
        return bool(await self._client.run(DELETE, session_keys(key)[:4], [session_id(key)]))

    async def acquire_lease(self, key: SessionKey, holder: str, *, ttl: float) -> tuple[SessionLease, Session | None]:
        keys = session_keys(key)
        arguments: list[str | int] = [check_id("holder", holder), to_milliseconds(ttl)]
        epoch, found, left = await self._client.run(ACQUIRE, (keys[0], keys[4]), arguments)
        if not epoch:
            raise SessionInUse(key.session, found.decode(), left / 1000)
        head = _parse_snapshot(key, found).head
        return SessionLease(key, holder, epoch), head.without_events() if head else None

    async def renew_lease(self, lease: SessionLease, *, ttl: float) -> None:
        done = await self._client.run(RENEW, session_keys(lease.key)[4:], [lease.epoch, to_milliseconds(ttl)])
        if isinstance(done, list):
            raise LeaseLost(lease.key.session, lease.epoch, _decode_holder(cast("list[bytes]", done)))

    async def release_lease(self, lease: SessionLease) -> None:
        await self._client.run(RELEASE, session_keys(lease.key)[4:], [lease.epoch])

    async def close(self) -> None:
        """Close the connections of the running loop; the next use opens new ones."""
        await self._client.close()


def _parse_snapshot(key: SessionKey, fields: Sequence[bytes | None]) -> _SessionSnapshot:
    if any(field is None for field in fields):
        return _SessionSnapshot(None, uuid4().hex)
    revision, begun, updated, state, birth = (bytes(field or b"").decode() for field in fields)
    times = datetime.fromisoformat(begun), datetime.fromisoformat(updated)
    return _SessionSnapshot(SessionHead(key, int(revision), *times, json.loads(state)), birth)


def _decode_holder(found: Sequence[bytes]) -> str:
    return found[0].decode() if found else ""


def _build_write_arguments(seen: _SessionSnapshot, head: SessionHead, event: Event) -> list[str | int]:
    """The arguments of `WRITE`."""
    begun, updated = head.begun.isoformat(), head.updated.isoformat()
    listed = json.dumps({"session": head.key.session, "revision": head.revision, "begun": begun, "updated": updated})
    before = seen.head.revision if seen.head else 0
    event_and_head = [event.id, event_to_json(event), head.revision, begun, updated, state_to_json(head.state)]
    return [before, seen.birth, *event_and_head, session_id(head.key), listed]


def _parse_info(app: str, user: str, value: bytes) -> SessionInfo:
    found: dict[str, Any] = json.loads(value)
    begun, updated = datetime.fromisoformat(found["begun"]), datetime.fromisoformat(found["updated"])
    return SessionInfo(SessionKey(app, user, found["session"]), found["revision"], begun, updated)
