"""Conversations in an SQLite file: durable once acknowledged, shared by tasks, threads and processes."""

from collections.abc import Sequence
from pathlib import Path

from openskills.session import tables
from openskills.session.events import Event, from_json
from openskills.session.head import Head, advanced, repeated
from openskills.session.plain import checked_id
from openskills.session.sqlite_asking import Asking
from openskills.session.sqlite_file import SqliteFile
from openskills.session.store import Appended, AppendEventHook, Session, SessionInfo, SessionKey, latest_first

PATIENCE = 30.0


class SqliteSessionStore:
    """A `SessionStore` in a file of a local disk. `hook` sees every event before it is stored, in a thread of ours.

    Making one touches nothing; the first use makes the file, or brings an older one up to date. `patience` is how many
    seconds an append waits for other processes, before it raises `SessionsUnavailable`.
    """

    def __init__(self, path: Path | str, hook: AppendEventHook | None = None, *, patience: float = PATIENCE) -> None:
        self._hook = hook
        # Two, so that nobody who reads waits for those who write, in this process either.
        self._writing = SqliteFile(Path(path).absolute(), patience=patience)
        self._reading = SqliteFile(Path(path).absolute(), patience=patience)

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        """See `SessionStore.get`."""
        return await self._reading.use(lambda asking: _get(asking, key, after))

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        """See `SessionStore.append`. A hook keeps everybody else who writes to this file waiting."""
        return await self._writing.use(lambda asking: _append(asking, key, event, expected, self._hook))

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        """See `SessionStore.list`."""
        question = tables.list_question(checked_id("app", app), checked_id("user", user))
        rows = await self._reading.use(lambda asking: asking.rows(question))
        return latest_first([tables.info_of(app, user, row) for row in rows])

    async def delete(self, key: SessionKey) -> bool:
        """See `SessionStore.delete`."""
        return await self._writing.use(lambda asking: _delete(asking, key))

    async def close(self) -> None:
        """Close the file; the next use opens it again."""
        await self._reading.close()
        await self._writing.close()


def _get(asking: Asking, key: SessionKey, after: int) -> Session | None:
    with asking.transaction("DEFERRED"):
        head = _head(asking, key)
        if head is None:
            return None
        rows = asking.rows(tables.events_question(key, after))
    return head.session([from_json(body) for (body,) in rows], after=after)


def _append(
    asking: Asking, key: SessionKey, event: Event, expected: int | None, hook: AppendEventHook | None
) -> Appended:
    with asking.transaction("IMMEDIATE"):
        head = _head(asking, key)
        stored = asking.rows(tables.event_question(key, event))
        if head and stored:
            return repeated(head, stored[0][0])
        done, after = advanced(key, head, event, expected=expected, hook=hook)
        for question in tables.writing(after, done.event):
            asking.change(question)
    return done


def _delete(asking: Asking, key: SessionKey) -> bool:
    events, session = tables.deleting(key)
    with asking.transaction("IMMEDIATE"):
        asking.change(events)
        return asking.change(session) > 0


def _head(asking: Asking, key: SessionKey) -> Head | None:
    rows = asking.rows(tables.head_question(key))
    return tables.head_of(key, rows[0]) if rows else None
