"""A session store in memory, for tests and throw-away sessions."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from openskills.arguments import check_arguments
from openskills.errors import SessionConflict
from openskills.session.events import Event, check_id
from openskills.session.store import (
    AppendEventHook,
    AppendResult,
    Session,
    SessionInfo,
    SessionKey,
    build_append_result,
    sort_latest_first,
)


@dataclass(slots=True)
class _SessionLog:
    events: list[Event] = field(default_factory=list[Event])
    state: dict[str, str] = field(default_factory=dict[str, str])
    positions: dict[str, int] = field(default_factory=dict[str, int])

    def info(self, key: SessionKey) -> SessionInfo:
        return SessionInfo(key, len(self.events), self.events[0].at, self.events[-1].at)


@check_arguments
class MemorySessionStore:
    """A `SessionStore` in memory. `hook` is called with every event before it is stored."""

    def __init__(self, hook: AppendEventHook | None = None) -> None:
        self._hook = hook
        self._logs: dict[SessionKey, _SessionLog] = {}
        self._lock = threading.Lock()

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        """See `SessionStore.get`."""
        with self._lock:
            log = self._logs.get(key)
            if log is None:
                return None
            state, events, revision = dict(log.state), log.events[max(after, 0) :], len(log.events)
        return Session(key, state, tuple(replace(event) for event in events), revision)

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> AppendResult:
        """See `SessionStore.append`."""
        with self._lock:
            log = self._logs.get(key) or _SessionLog()
            if event.id in log.positions:
                stored = log.events[log.positions[event.id]]
                return AppendResult(replace(stored), len(log.events), dict(log.state))
            if expected not in (None, len(log.events)):
                raise SessionConflict(key.session, expected, len(log.events))
            done = build_append_result(event, log.state, len(log.events), self._hook)
            log.positions[event.id] = len(log.events)
            log.events.append(done.event)
            log.state = dict(done.state)
            self._logs[key] = log
        return replace(done, event=replace(done.event))

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        """See `SessionStore.list`."""
        owner = (check_id("app", app), check_id("user", user))
        with self._lock:
            found = [log.info(key) for key, log in self._logs.items() if (key.app, key.user) == owner]
        return sort_latest_first(found)

    async def delete(self, key: SessionKey) -> bool:
        """See `SessionStore.delete`."""
        with self._lock:
            return self._logs.pop(key, None) is not None
