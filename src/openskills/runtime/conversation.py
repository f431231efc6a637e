"""`Conversation`: the state, log, workspace and files that its agents share; its lease; the pool of open ones."""

import asyncio
import hashlib
import logging
import os
import platform
import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from openskills.artifacts.store import Scope
from openskills.concurrency import LoopEndCallback, shield_until_done
from openskills.errors import ExecutorUnavailable, InvalidArgument, LeaseLost, SessionInUse, SkillError
from openskills.executors.commands import CommandRules, CommandRunner
from openskills.executors.interactive import InteractiveCommands, ProcessOwner, ProcessTable
from openskills.executors.supervisor import read_boot_and_namespace
from openskills.prompt.usage import Ledger
from openskills.session.events import STATE_UPDATE, Event, apply_delta, new_event
from openskills.session.keys import build_delta, migrate_keys, state_from_keys, state_to_keys
from openskills.session.state import RecordedChange, SkillState, Unloaded, apply_changes
from openskills.session.store import Session, SessionKey, SessionLease, SessionStore
from openskills.tools.approvals import Approvals
from openskills.tools.loaded_texts import LoadedTexts
from openskills.tools.names import LOAD, SELECT
from openskills.tools.uploads import Uploads

_LOG = logging.getLogger("openskills")
_AFTER_LAST_EVENT = 2**53
_MAX_LOST_COMMANDS = 64


_RENEWALS_PER_TTL = 3
_SAFE_SHARE = 0.9  # of a lease: clocks of machines do not run equally fast
_POLL_SECONDS = 0.25
_HOLDER = re.compile(r"process ([0-9]{1,10}) on .* \(runtime .*, boot ([0-9a-f]{12})\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """Who takes leases, how many seconds they last without renewal, and how many to wait for another holder."""

    holder: str
    ttl: float
    wait: float = 0.0


def describe_holder(runtime: str) -> str:
    """The holder of leases, for people, too: the process, its machine, the runtime in it, and the boot of the machine.

    Other processes of this boot and pid namespace recognise by it that the process has died.
    """
    named = f"process {os.getpid()} on {platform.node() or 'this machine'} (runtime {runtime}"
    boot = _digest_boot(os.getpid())
    return f"{named}, boot {boot})" if boot else f"{named})"


def is_dead_holder(holder: str) -> bool:
    """Whether the process of `describe_holder` has certainly died: it was one of this boot and pid namespace.

    False for processes of other machines and containers, and for those whose pid was used again.
    """
    match = _HOLDER.fullmatch(holder)
    if match is None or match[2] != _digest_boot(os.getpid()):
        return False
    try:
        os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


@lru_cache(maxsize=1)
def _digest_boot(_pid: int) -> str:
    """A digest of what this process and others of this boot and pid namespace have in common; empty if unknown."""
    try:
        parts = (platform.node(), *read_boot_and_namespace())
    except OSError:
        return ""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


class HeldLease:
    """The lease of an open conversation, renewed in the background until it is closed. It belongs to one event loop."""

    def __init__(self, store: SessionStore, lease: SessionLease, ttl: float, began: float) -> None:
        self.holder = lease.holder
        self.epoch = lease.epoch
        self._store = store
        self._lease = lease
        self._ttl = ttl
        self._deadline = began + ttl * _SAFE_SHARE
        self._lost: LeaseLost | None = None
        self._loop = asyncio.get_running_loop()
        self._renewing: asyncio.Task[None] | None = None
        # A timer, not a task that waits: a loop may be closed while a conversation is open.
        self._timer = self._loop.call_later(ttl / _RENEWALS_PER_TTL, self._start_renewal)

    @staticmethod
    async def acquire(store: SessionStore, key: SessionKey, terms: LeaseTerms) -> "tuple[HeldLease, Session | None]":
        """Take the lease and read the session without its events. Raises `SessionInUse` after `LeaseTerms.wait`.

        The lease of a process of this machine that has died is ended at once.
        """
        until = _read_clock() + terms.wait
        while True:
            began = _read_clock()
            asking = asyncio.ensure_future(store.acquire_lease(key, terms.holder, ttl=terms.ttl))
            try:
                lease, found = await shield_until_done(asking)
            except SessionInUse as error:
                if is_dead_holder(error.holder) and await _end_lease(store, key, error.holder, terms.ttl):
                    continue
                left = until - _read_clock()
                if left <= 0:
                    raise
                await asyncio.sleep(min(_POLL_SECONDS, left, max(error.seconds, 0.001)))
                continue
            except asyncio.CancelledError:
                if asking.done() and not asking.cancelled() and asking.exception() is None:
                    await store.release_lease(asking.result()[0])
                raise
            return HeldLease(store, lease, terms.ttl, began), found

    async def check(self) -> None:
        """Raise `LeaseLost` if another process may run the conversation; to be called before every side effect.

        Asks the store only if the lease was not renewed in time, because this process was paused or its loop blocked.
        """
        if self._lost is not None:
            raise self._lost.with_traceback(None)
        if _read_clock() >= self._deadline:
            await self._renew()

    async def close(self) -> None:
        """Release the lease, so that others need not wait for its end."""
        if not self._loop.is_closed():
            self._timer.cancel()
        if self._renewing is not None and self._loop is asyncio.get_running_loop():
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        if self._lost is None:
            await self._store.release_lease(self._lease)

    def _start_renewal(self) -> None:
        self._renewing = self._loop.create_task(self._renew_in_background())

    async def _renew_in_background(self) -> None:
        try:
            await self._renew()
        except LeaseLost as error:
            _LOG.warning("%s", error.message)
            return
        except SkillError as error:
            # The store cannot be reached: tried again soon, and before the next command.
            _LOG.warning("a lease was not renewed: %s", error.message)
        self._timer = self._loop.call_later(self._ttl / _RENEWALS_PER_TTL, self._start_renewal)

    async def _renew(self) -> None:
        began = _read_clock()
        try:
            await self._store.renew_lease(self._lease, ttl=self._ttl)
        except LeaseLost as error:
            self._lost = error
            raise
        self._deadline = began + self._ttl * _SAFE_SHARE


async def _end_lease(store: SessionStore, key: SessionKey, holder: str, ttl: float) -> bool:
    """End the lease of a dead holder; False if another process has the lease by now."""
    # A store gives a holder a new lease at any time, and the epoch of the last lease is only known to who took it.
    try:
        lease, _ = await store.acquire_lease(key, holder, ttl=ttl)
    except SessionInUse:
        return False
    await store.release_lease(lease)
    return True


def _read_clock() -> float:
    """Seconds of a clock that also runs while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(slots=True)
class ConversationCache:
    """What this process remembers of a conversation between uses: the user's files and approvals.

    `loaded_texts` and `ledgers` are for agents that are used through branches; `lost_commands` ended with their event
    loop.
    """

    uploads: Uploads = field(default_factory=Uploads)
    approvals: dict[Hashable, Approvals] = field(default_factory=dict[Hashable, Approvals])
    loaded_texts: dict[Hashable, LoadedTexts] = field(default_factory=dict[Hashable, LoadedTexts])
    ledgers: dict[str, Ledger] = field(default_factory=dict[str, Ledger])
    lost_commands: deque[str] = field(default_factory=lambda: deque[str](maxlen=_MAX_LOST_COMMANDS))


class Conversation:
    """An open conversation. It belongs to one event loop."""

    def __init__(
        self,
        scope: Scope,
        store: SessionStore,
        create_runner: "Callable[[Conversation], Awaitable[CommandRunner]]",
        cache: ConversationCache | None = None,
        terms: LeaseTerms | None = None,
        save: "Callable[[Conversation, CommandRunner], Awaitable[None]] | None" = None,
    ) -> None:
        """Without `terms`, no lease is taken: for a store that nobody else uses.

        `save` is called with a runner after it was closed, while the lease is still held.
        """
        self.scope = scope
        self.loop = asyncio.get_running_loop()
        self.state = SkillState()
        self.cache = cache or ConversationCache()
        self.uploads = self.cache.uploads
        self._parent: Conversation | None = None
        self.user_count = 0
        self._store = store
        self._key = SessionKey(scope.app, scope.user, scope.session)
        self._terms = terms
        self._save = save
        self.lease: HeldLease | None = None
        self._is_lease_lent = False
        self._create_runner = create_runner
        self._runner: CommandRunner | None = None
        self._opening = asyncio.Lock()
        self._preparing: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._commands: dict[ProcessOwner, InteractiveCommands] = {}
        self._running_ids: tuple[str, ...] = ()
        self._at_loop_end: LoopEndCallback | None = None
        self._pending: list[Event] = []
        self._listeners: list[Callable[[Event], None]] = []

    async def open(self, agent: str) -> None:
        """Take the lease and read the state from the store, migrating keys of older versions.

        The log is only read if it is needed to find out which agent such keys belong to. Raises `SessionInUse`.
        """
        found = await self._take_lease()
        if found is None:
            return
        try:
            await self._read_state(found, agent)
        except BaseException:
            await self._release_lease()
            raise

    async def _take_lease(self) -> Session | None:
        """Read the session without its events, and take its lease; an agent of a parent uses the parent's."""
        if self._terms is None:
            return await self._store.get(self._key, after=_AFTER_LAST_EVENT)
        lent = self._parent.lease if self._parent is not None else None
        try:
            self.lease, found = await HeldLease.acquire(
                self._store, self._key, replace(self._terms, wait=0) if lent else self._terms
            )
        except SessionInUse as error:
            if lent is None or error.holder != lent.holder:
                raise
            # The same store: the parent's runtime runs this conversation, and we are a part of it.
            self.lease, self._is_lease_lent = lent, True
            found = await self._store.get(self._key, after=_AFTER_LAST_EVENT)
        return found

    async def _release_lease(self) -> None:
        lease, self.lease = self.lease, None
        if lease is not None and not self._is_lease_lent:
            await lease.close()

    async def check_lease(self) -> None:
        """Raise `LeaseLost` if another process may have continued the conversation. See `HeldLease.check`."""
        if self.lease is not None:
            await self.lease.check()

    async def _read_state(self, found: Session, agent: str) -> None:
        if migrate_keys(found.state, agent, lambda _: None):
            found = await self._store.get(self._key) or found
        moved = migrate_keys(found.state, agent, lambda skill: _find_last_agent(skill, found.events))
        self.state = state_from_keys(apply_delta(found.state, moved))
        if moved:
            self._pending.append(new_event(agent, STATE_UPDATE, {"why": "keys of an older version"}, moved))
            await self.flush()

    def tick(self) -> int:
        """Return a number for the next call, greater than all before it."""
        state = self.state
        self.state = SkillState(state.entries, state.turns, state.clock + 1)
        return self.state.clock

    def fold(
        self, changes: Iterable[RecordedChange], agent: str, about: Mapping[str, Any], *, kind: str = STATE_UPDATE
    ) -> None:
        """Apply changes now; the next `flush` writes them as an event with the payload `about`.

        A state update that changes nothing is not written.
        """
        before = self.state
        happened = list(changes)
        self.state = apply_changes(before, happened)
        found = build_delta(before, self.state, agents={recorded.agent for recorded in happened})
        if found or kind != STATE_UPDATE:
            self._pending.append(new_event(agent, kind, about, found))

    async def log(self, event: Event) -> None:
        """Write an event, after all pending ones."""
        self._pending.append(event)
        await self.flush()

    @contextmanager
    def listen(self, listener: Callable[[Event], None]) -> Generator[None]:
        """Call `listener` with every stored event, in the order of the log; once, even if it listens already."""
        if listener in self._listeners:
            yield
            return
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def events(self) -> tuple[Event, ...]:
        """The log of the conversation, including pending events."""
        await self.flush()
        found = await self._store.get(self._key)
        return found.events if found else ()

    async def flush(self) -> None:
        """Write pending events in order; those that fail are tried again the next time. Raises `LeaseLost`.

        If a hook of the store removed keys, the skills are unloaded here, too.
        """
        async with self._writing:
            while self._pending:
                first = self._pending[0]
                epoch = self.lease.epoch if self.lease is not None else None
                stored = await self._store.append(self._key, first, epoch=epoch)
                self._pending.pop(0)
                for listener in tuple(self._listeners):
                    listener(stored.event)
                if stored.event.delta != first.delta:
                    self._unload_rejected(stored.state)

    def _unload_rejected(self, keys: Mapping[str, str]) -> None:
        for event in self._pending:
            keys = apply_delta(keys, event.delta)
        stored = state_from_keys(keys)
        gone = [
            RecordedChange(entry.loaded, agent, Unloaded(skill, evicted=True))
            for (agent, skill), entry in self.state.entries.items()
            if self.state.view_for(agent).is_loaded(skill) and not stored.view_for(agent).is_loaded(skill)
        ]
        self.state = apply_changes(self.state, gone)

    def keys(self) -> dict[str, str]:
        """The state as `temp:skill:` keys."""
        return state_to_keys(self.state)

    def borrow_workspace(self, parent: "Conversation") -> None:
        """Use the workspace and the files of a conversation that stays open longer than this one."""
        self._parent = parent
        self.uploads = parent.uploads

    async def open_runner(self, agent: str, rules: CommandRules) -> CommandRunner:
        """Return a runner for the agent; the workspace is opened on first use."""
        if self._parent is not None:
            return await self._parent.open_runner(agent, rules)
        runner = await self._get_runner()
        return runner.for_agent(agent, rules, guard=self.check_lease)

    async def _get_runner(self) -> CommandRunner:
        async with self._opening:
            if self._runner is None:
                self._runner = await self._create_runner(self)
            return self._runner

    def prepare_workspace(self) -> None:
        """Open the workspace in the background. If that fails, the first command tries again and reports it."""
        if self._parent is not None:
            self._parent.prepare_workspace()
        elif self._runner is None and self._preparing is None:
            self._preparing = self.loop.create_task(self._prepare_workspace())

    async def _prepare_workspace(self) -> None:
        with suppress(SkillError, OSError):
            await self._get_runner()

    def get_commands(self, owner: ProcessOwner, runner: CommandRunner, processes: ProcessTable) -> InteractiveCommands:
        """The interactive commands of an agent, across turns; new ones start with the rules of `runner`."""
        if owner not in self._commands:
            self._commands[owner] = InteractiveCommands(runner, processes, owner)
        return self._commands[owner].with_runner(runner)

    def get_approvals(self, key: Hashable, made: Callable[[], Approvals]) -> Approvals:
        """The approvals for a key, with their remembered answers."""
        if key not in self.cache.approvals:
            self.cache.approvals[key] = made()
        return self.cache.approvals[key]

    def get_loaded_texts(self, key: Hashable, made: Callable[[], LoadedTexts]) -> LoadedTexts:  # noqa: ARG002
        """New loaded texts for an agent: they are read again after a conversation was closed."""
        return made()

    def has_commands_of(self, agent: str) -> bool:
        """Whether an agent has started an interactive command."""
        return any(owner.agent == agent for owner in self._commands)

    def has_running_commands(self) -> bool:
        """Whether an interactive command is still running."""
        return any(commands.list_running() for commands in self._commands.values())

    def check_command(self, identity: str) -> None:
        """Raise `InvalidArgument` for an interactive command that ended with its event loop."""
        if identity in self.cache.lost_commands:
            raise InvalidArgument(
                "session_id",
                f"{identity!r} ended with its event loop, and its last output is lost; start it again with skill_exec",
            )

    def defer_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Keep it open for its running commands; `close` is called when their event loop is about to end."""
        self._running_ids = tuple(one for commands in self._commands.values() for one in commands.list_running())
        if self._at_loop_end is None:
            self._at_loop_end = LoopEndCallback(close)

    async def close_with_loop(self) -> None:
        """Close it because its event loop ends or has ended, and remember its commands as lost."""
        self.cache.lost_commands.extend(self._running_ids)
        if not self.loop.is_closed():
            await self.close()
        elif self._runner is not None:
            # Without their loop, commands cannot be killed one by one; they end with the workspace.
            with suppress(RuntimeError):
                await self._runner.close()
            self.uploads.leave_workspace()
            await self._release_lease()

    async def close(self) -> None:
        """Write pending events and close the workspace, even if writing fails; its files stay."""
        if self._at_loop_end is not None:
            self._at_loop_end.cancel()
        try:
            await self.flush()
        finally:
            try:
                await self._close_workspace()
            finally:
                await self._release_lease()

    async def _close_workspace(self) -> None:
        for commands in self._commands.values():
            await commands.close()
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.wait([self._preparing])
        async with self._opening:
            if self._runner is not None:
                closed, self._runner = self._runner, None
                await closed.close()
                if self._save is not None:
                    await self._save(self, closed)
                # The cache must not keep closed workspaces in memory.
                self.uploads.leave_workspace()


def _find_last_agent(skill: str, events: Sequence[Event]) -> str | None:
    """The agent that last loaded a skill or selected its documents."""
    for event in reversed(events):
        if event.payload.get("skill") == skill and event.payload.get("tool") in (LOAD, SELECT):
            return event.author
    return None


MAX_CACHED_CONVERSATIONS = 256
_CLOSE_TIMEOUT = 10.0  # for closing conversations in other event loops


@dataclass(slots=True)
class _ConversationLock:
    """Serializes opening and closing of a conversation in its event loop."""

    loop: asyncio.AbstractEventLoop
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class ConversationPool:
    """Open conversations by scope: opened for the first user and closed after the last.

    While a conversation is open, it belongs to one event loop and cannot be used in another.
    """

    def __init__(self, make: Callable[[Scope, ConversationCache], Conversation]) -> None:
        self._make = make
        self._open: dict[Scope, Conversation] = {}
        self._locks: dict[Scope, _ConversationLock] = {}
        self._lock = threading.Lock()
        self._caches: OrderedDict[Scope, ConversationCache] = OrderedDict()

    async def acquire(self, scope: Scope, agent: str, parent: Conversation | None = None) -> Conversation:
        """Return the conversation of this scope; the caller must `release` it, before the `parent` is released.

        Raises `ExecutorUnavailable` while it is open in another event loop.
        """
        async with self._hold_lock(scope):
            opened = self._open.get(scope)
            if opened is not None and opened.loop.is_closed():
                del self._open[scope]
                await opened.close_with_loop()
                opened = None
            if opened is None:
                opened = self._make(scope, self._get_cache(scope))
                if parent is not None:
                    opened.borrow_workspace(parent)
                await opened.open(agent)
                self._open[scope] = opened
            opened.user_count += 1
            return opened

    async def release(self, opened: Conversation, *, keep_commands: bool = True) -> None:
        """Release a conversation. Not interrupted by cancellation.

        With `keep_commands`, running interactive commands keep it open; otherwise they are killed after its last user.
        """
        await shield_until_done(self._release(opened, keep_commands))

    async def _release(self, opened: Conversation, keep_commands: bool) -> None:
        async with self._hold_lock(opened.scope):
            opened.user_count -= 1
            if opened.user_count:
                await opened.flush()
            elif keep_commands and opened.has_running_commands():
                opened.defer_close(lambda: self._close_with_loop(opened))
                await opened.flush()
            else:
                self._open.pop(opened.scope, None)
                await opened.close()

    async def close(self) -> list[BaseException]:
        """Close all conversations, even if some fail; return the exceptions."""
        opened, self._open = list(self._open.values()), {}
        self._locks.clear()
        results = await asyncio.gather(*map(_close_conversation, opened), return_exceptions=True)
        return [result for result in results if isinstance(result, BaseException)]

    def find_loop(self, scope: Scope) -> asyncio.AbstractEventLoop | None:
        """The running event loop of a conversation's interactive commands, if any."""
        opened = self._open.get(scope)
        if opened is not None and opened.loop.is_running() and opened.has_running_commands():
            return opened.loop
        return None

    async def _close_with_loop(self, opened: Conversation) -> None:
        async with self._hold_lock(opened.scope):
            if self._open.get(opened.scope) is opened:
                del self._open[opened.scope]
                await opened.close_with_loop()

    def _get_cache(self, scope: Scope) -> ConversationCache:
        found = self._caches.setdefault(scope, ConversationCache())
        self._caches.move_to_end(scope)
        while len(self._caches) > MAX_CACHED_CONVERSATIONS:
            self._caches.popitem(last=False)
        return found

    @asynccontextmanager
    async def _hold_lock(self, scope: Scope) -> AsyncGenerator[None]:
        lock = self._get_lock(scope)
        lock.waiting += 1
        try:
            async with lock.lock:
                yield
        finally:
            lock.waiting -= 1
            if not lock.waiting and scope not in self._open and self._locks.get(scope) is lock:
                del self._locks[scope]

    def _get_lock(self, scope: Scope) -> _ConversationLock:
        here = asyncio.get_running_loop()
        with self._lock:
            lock = self._locks.get(scope)
            if lock is None or lock.loop.is_closed():
                lock = self._locks[scope] = _ConversationLock(here)
        if lock.loop is not here:
            raise ExecutorUnavailable(
                f"the conversation {scope.session!r} is in use, or has a running command, in another event loop; use "
                "the same loop for all its turns: await all of them there, or use blocking calls for all"
            )
        return lock


async def _close_conversation(opened: Conversation) -> None:
    """Close a conversation in its own event loop."""
    if opened.loop is asyncio.get_running_loop():
        await opened.close()
    elif not opened.loop.is_running():
        await opened.close_with_loop()
    else:
        there = asyncio.run_coroutine_threadsafe(opened.close(), opened.loop)
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await asyncio.wrap_future(there)
        except TimeoutError:
            raise InvalidArgument(
                "close",
                f"a command of {opened.scope.session!r} runs in another event loop, which does not respond; "
                "await close() in that loop",
            ) from None
