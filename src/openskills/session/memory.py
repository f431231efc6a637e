"""A session store in memory, for tests and throw-away sessions."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from openskills.arguments import check_arguments
from openskills.errors import SessionConflict
from openskills.session.events import Event, check_id
from openskills.session.store import (
    NO_LEASE,
    AppendEventHook,
    AppendResult,
    LeaseRecord,
    Session,
    SessionInfo,
    SessionKey,
    SessionLease,
    build_append_result,
    sort_latest_first,
    take_lease,
    to_milliseconds,
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
        self._leases: dict[SessionKey, LeaseRecord] = {}
        # For all sessions, so that epochs grow although deleted sessions are forgotten.
        self._last_epoch = 0
        self._lock = threading.Lock()

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        with self._lock:
            return self._read(key, max(after, 0))

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        with self._lock:
            if epoch is not None:
                self._leases.get(key, NO_LEASE).check_epoch(key, epoch)
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
        owner = (check_id("app", app), check_id("user", user))
        with self._lock:
            found = [log.info(key) for key, log in self._logs.items() if (key.app, key.user) == owner]
        return sort_latest_first(found)

    async def delete(self, key: SessionKey) -> bool:
        with self._lock:
            self._forget_lease(key)
            return self._logs.pop(key, None) is not None

    async def acquire_lease(self, key: SessionKey, holder: str, *, ttl: float) -> tuple[SessionLease, Session | None]:
        with self._lock:
            last = self._leases.get(key, NO_LEASE)
            taken = take_lease(key, last, holder, ttl=ttl, now=_read_clock(), after=self._last_epoch)
            self._leases[key] = taken
            self._last_epoch = taken.epoch
            return SessionLease(key, holder, taken.epoch), self._read(key)

    async def renew_lease(self, lease: SessionLease, *, ttl: float) -> None:
        with self._lock:
            last = self._leases.get(lease.key, NO_LEASE)
            last.check_epoch(lease.key, lease.epoch)
            self._leases[lease.key] = replace(last, expires=_read_clock() + to_milliseconds(ttl))

    async def release_lease(self, lease: SessionLease) -> None:
        with self._lock:
            last = self._leases.get(lease.key, NO_LEASE)
            if last.epoch == lease.epoch:
                self._leases[lease.key] = replace(last, holder="")
            if lease.key not in self._logs:
                self._forget_lease(lease.key)

    def _read(self, key: SessionKey, after: int | None = None) -> Session | None:
        log = self._logs.get(key)
        if log is None:
            return None
        events = [] if after is None else log.events[after:]
        return Session(key, dict(log.state), tuple(replace(event) for event in events), len(log.events))

    def _forget_lease(self, key: SessionKey) -> None:
        last = self._leases.get(key, NO_LEASE)
        if not last.holder or last.expires <= _read_clock():
            self._leases.pop(key, None)


def _read_clock() -> int:
    return time.monotonic_ns() // 1_000_000
