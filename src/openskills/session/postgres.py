"""Conversations in a PostgreSQL database: for many machines. Needs the extra `postgres`."""

from collections.abc import Sequence

from openskills.session import tables
from openskills.session.address import place_of
from openskills.session.events import Event, from_json
from openskills.session.head import Head, advanced, repeated
from openskills.session.plain import checked_id
from openskills.session.postgres_pool import READING, Asking, PostgresPool
from openskills.session.store import Appended, AppendEventHook, Session, SessionInfo, SessionKey, latest_first


class PostgresSessionStore:
    """A `SessionStore` in a database, `postgresql://user:password@host:port/database`.

    Making one touches nothing; the first use in a loop connects, and makes our tables or brings them up to date.
    Every loop has connections of its own: `close` those of a loop before it ends. Raises `SessionsUnavailable` when the
    server cannot be reached. An event is as durable as the server's `synchronous_commit` makes it; by default, fully.
    """

    def __init__(self, url: str, hook: AppendEventHook | None = None) -> None:
        self._hook = hook
        self._pool = PostgresPool(url, f"the session store {place_of(url)}")

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        """See `SessionStore.get`."""
        async with self._pool.transaction(READING) as asking:
            head = await _head(asking, key)
            if head is None:
                return None
            rows = await asking.rows(tables.events_question(key, after))
        return head.session([from_json(body) for (body,) in rows], after=after)

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        """See `SessionStore.append`. A hook keeps everybody else who appends to this conversation waiting."""
        async with self._pool.transaction() as asking:
            await asking.lock(_number(key))
            head = await _head(asking, key)
            stored = await asking.rows(tables.event_question(key, event))
            if head and stored:
                return repeated(head, stored[0][0])
            done, after = advanced(key, head, event, expected=expected, hook=self._hook)
            for question in tables.writing(after, done.event):
                await asking.change(question)
        return done

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        """See `SessionStore.list`."""
        question = tables.list_question(checked_id("app", app), checked_id("user", user))
        async with self._pool.transaction(READING) as asking:
            rows = await asking.rows(question)
        return latest_first([tables.info_of(app, user, row) for row in rows])

    async def delete(self, key: SessionKey) -> bool:
        """See `SessionStore.delete`."""
        events, session = tables.deleting(key)
        async with self._pool.transaction() as asking:
            await asking.lock(_number(key))
            await asking.change(events)
            return await asking.change(session) > 0

    async def close(self) -> None:
        """Close the connections of the running loop; the next use opens others."""
        await self._pool.close()


async def _head(asking: Asking, key: SessionKey) -> Head | None:
    rows = await asking.rows(tables.head_question(key))
    return tables.head_of(key, rows[0]) if rows else None


def _number(key: SessionKey) -> int:
    # Two conversations with the same number would wait for each other, and nothing worse.
    return int.from_bytes(bytes.fromhex(tables.session_id(key))[:8], signed=True)
