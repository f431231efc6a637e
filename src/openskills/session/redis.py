"""Conversations in a Redis server: for many machines, as durable as that server is. Needs the extra `redis`."""

import asyncio
import json
import random
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

from openskills.errors import SessionsUnavailable
from openskills.session.address import place_of
from openskills.session.events import Event, from_json, to_json
from openskills.session.head import Head, advanced, repeated, state_text
from openskills.session.plain import checked_id
from openskills.session.redis_client import RedisClient
from openskills.session.redis_scripts import DELETE, LOOK, READ, WRITE, session_id, session_keys, sessions_key
from openskills.session.store import Appended, AppendEventHook, Session, SessionInfo, SessionKey, latest_first

TRIES = 200


class _Seen(NamedTuple):
    """A conversation as it was a moment ago; `birth` tells it from one that began anew after it was deleted."""

    head: Head | None
    birth: str


class RedisSessionStore:
    """A `SessionStore` in a Redis server, `redis://user:password@host:port/database`.

    Making one touches nothing; the first use in a loop connects. Every loop has connections of its own: `close` those
    of a loop before it ends. Raises `SessionsUnavailable` when the server cannot be reached. An append looks, decides
    and writes only if nothing has changed meanwhile, else it begins again; so a hook may see an event several times,
    each time with the state as it is, and what it said last is what counts.
    """

    def __init__(self, url: str, hook: AppendEventHook | None = None) -> None:
        self._hook = hook
        self._place = f"the session store {place_of(url)}"
        self._client = RedisClient(url, self._place)

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        """See `SessionStore.get`."""
        fields, bodies = await self._client.run(READ, session_keys(key)[:2], [max(after, 0)])
        head = _seen(key, fields).head
        return head.session([from_json(body) for body in bodies], after=after) if head else None

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        """See `SessionStore.append`."""
        keys = session_keys(key)
        for number in range(TRIES):
            fields, stored = await self._client.run(LOOK, keys[:3], [event.id])
            seen = _seen(key, fields)
            if seen.head and stored:
                return repeated(seen.head, stored)
            done, after = advanced(key, seen.head, event, expected=expected, hook=self._hook)
            if await self._client.run(WRITE, keys, _written(seen, after, done.event)):
                return done
            # Somebody was faster. The more there are who try, the longer it is until all have had their turn.
            await asyncio.sleep(random.random() * 0.001 * min(number, 50))  # noqa: S311  nobody has to be surprised
        raise SessionsUnavailable(f"{self._place}: too many append to session {key.session!r} at once; try again")

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        """See `SessionStore.list`."""
        owner = sessions_key(checked_id("app", app), checked_id("user", user))
        return latest_first([_info(app, user, value) for value in await self._client.values(owner)])

    async def delete(self, key: SessionKey) -> bool:
        """See `SessionStore.delete`."""
        return bool(await self._client.run(DELETE, session_keys(key), [session_id(key)]))

    async def close(self) -> None:
        """Close the connections of the running loop; the next use opens others."""
        await self._client.close()


def _seen(key: SessionKey, fields: Sequence[bytes | None]) -> _Seen:
    if any(field is None for field in fields):
        return _Seen(None, uuid4().hex)
    revision, begun, updated, state, birth = (bytes(field or b"").decode() for field in fields)
    times = datetime.fromisoformat(begun), datetime.fromisoformat(updated)
    return _Seen(Head(key, int(revision), *times, json.loads(state)), birth)


def _written(seen: _Seen, head: Head, event: Event) -> list[str | int]:
    """The arguments of `WRITE`."""
    begun, updated = head.begun.isoformat(), head.updated.isoformat()
    listed = json.dumps({"session": head.key.session, "revision": head.revision, "begun": begun, "updated": updated})
    before = seen.head.revision if seen.head else 0
    event_and_head = [event.id, to_json(event), head.revision, begun, updated, state_text(head.state)]
    return [before, seen.birth, *event_and_head, session_id(head.key), listed]


def _info(app: str, user: str, value: bytes) -> SessionInfo:
    found: dict[str, Any] = json.loads(value)
    begun, updated = datetime.fromisoformat(found["begun"]), datetime.fromisoformat(found["updated"])
    return SessionInfo(SessionKey(app, user, found["session"]), found["revision"], begun, updated)
