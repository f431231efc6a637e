"""What agents of a conversation share (was OpenedSession, OpenSessions).

What all agents of one conversation share: its state and its log, its workspace, its files.

The conversations that somebody uses now, and what is remembered of those that were used lately.
"""

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from openskills.artifacts.store import Scope
from openskills.concurrency import LoopEndCallback, shield_until_done
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.commands import CommandRules, CommandRunner
from openskills.executors.interactive import InteractiveCommands, ProcessOwner, ProcessTable
from openskills.prompt.usage import Ledger
from openskills.session.events import STATE_UPDATE, Event, apply_delta, new_event
from openskills.session.keys import build_delta, migrate_keys, state_from_keys, state_to_keys
from openskills.session.state import RecordedChange, SkillState, Unloaded, apply_changes
from openskills.session.store import SessionKey, SessionStore
from openskills.tools.approvals import Approvals
from openskills.tools.loaded_texts import LoadedTexts
from openskills.tools.names import LOAD, SELECT
from openskills.tools.uploads import Uploads

_AFTER_LAST_EVENT = 2**53
"""More events than any log has."""

_MAX_LOST_COMMANDS = 64
"""So many commands are remembered that ended with their event loop."""


@dataclass(slots=True)
class ConversationCache:
    """What of a conversation outlives its use, in this process: files of the user, what people have answered.

    `shelves` and `ledgers` are the texts and the requests of agents that are used through branches; `lost` are commands
    that ended with the event loop in which they were started.
    """

    uploads: Uploads = field(default_factory=Uploads)
    approvals: dict[Hashable, Approvals] = field(default_factory=dict[Hashable, Approvals])
    loaded_texts: dict[Hashable, LoadedTexts] = field(default_factory=dict[Hashable, LoadedTexts])
    ledgers: dict[str, Ledger] = field(default_factory=dict[str, Ledger])
    lost_commands: deque[str] = field(default_factory=lambda: deque[str](maxlen=_MAX_LOST_COMMANDS))


class Conversation:
    """One conversation, as long as anybody uses it. It belongs to one event loop."""

    def __init__(
        self,
        scope: Scope,
        store: SessionStore,
        open_bench: Callable[[], Awaitable[CommandRunner]],
        remembered: ConversationCache | None = None,
    ) -> None:
        self.scope = scope
        self.loop = asyncio.get_running_loop()
        self.state = SkillState()
        self._cache = remembered or ConversationCache()
        self.uploads = self._cache.uploads
        self.user_count = 0
        self._store = store
        self._key = SessionKey(scope.app, scope.user, scope.session)
        self._create_runner = open_bench
        self._runner: CommandRunner | None = None
        self._opening = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._commands: dict[ProcessOwner, InteractiveCommands] = {}
        self._running_ids: tuple[str, ...] = ()
        self._at_loop_end: LoopEndCallback | None = None
        self._pending: list[Event] = []
        self._listeners: list[Callable[[Event], None]] = []

    async def open(self, agent: str) -> None:
        """Read what the store knows, with keys of older versions moved to where they belong now.

        The log is read only where it has to tell whose such keys are: what is loaded stands in the state.
        """
        found = await self._store.get(self._key, after=_AFTER_LAST_EVENT)
        if found is None:
            return
        if migrate_keys(found.state, agent, lambda _: None):
            found = await self._store.get(self._key) or found
        moved = migrate_keys(found.state, agent, lambda skill: _find_last_agent(skill, found.events))
        self.state = state_from_keys(apply_delta(found.state, moved))
        if moved:
            self._pending.append(new_event(agent, STATE_UPDATE, {"why": "keys of an older version"}, moved))
            await self.flush()

    def tick(self) -> int:
        """A number for the next call, greater than all before it."""
        self.state = replace(self.state, clock=self.state.clock + 1)
        return self.state.clock

    def fold(
        self, changes: Iterable[RecordedChange], agent: str, about: Mapping[str, Any], *, kind: str = STATE_UPDATE
    ) -> None:
        """Let changes happen now; they are written with the next `flush`, as an event with `about` for its content.

        An update of the state that changes nothing is no event; anything else that happened is one.
        """
        before = self.state
        happened = list(changes)
        self.state = apply_changes(before, happened)
        found = build_delta(before, self.state, agents={recorded.agent for recorded in happened})
        if found or kind != STATE_UPDATE:
            self._pending.append(new_event(agent, kind, about, found))

    async def log(self, event: Event) -> None:
        """Write an event after all that happened before it."""
        self._pending.append(event)
        await self.flush()

    @contextmanager
    def listen(self, listener: Callable[[Event], None]) -> Generator[None]:
        """Call `listener` with every event once it is stored, in the order of the log."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def events(self) -> tuple[Event, ...]:
        """The log of the conversation, with everything that has happened."""
        await self.flush()
        found = await self._store.get(self._key)
        return found.events if found else ()

    async def flush(self) -> None:
        """Write what has happened, in its order. What could not be written is tried again the next time.

        A hook of the store may have changed what was to be stored: what it took away is not loaded here either.
        """
        async with self._writing:
            while self._pending:
                first = self._pending[0]
                stored = await self._store.append(self._key, first)
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
        """The state in the words of the mission documents."""
        return state_to_keys(self.state)

    async def open_runner(self, agent: str, rules: CommandRules) -> CommandRunner:
        """The workspace, opened when it is first asked for; the agent's runs are noted under its name."""
        async with self._opening:
            if self._runner is None:
                self._runner = await self._create_runner()
            return self._runner.for_agent(agent, rules)

    def get_commands(self, owner: ProcessOwner, bench: CommandRunner, processes: ProcessTable) -> InteractiveCommands:
        """The interactive commands of an agent, the same in every turn; new ones start by the rules of `bench`."""
        if owner not in self._commands:
            self._commands[owner] = InteractiveCommands(bench, processes, owner)
        return self._commands[owner].with_runner(bench)

    def get_approvals(self, key: Hashable, made: Callable[[], Approvals]) -> Approvals:
        """What people have answered to those who ask in the same way."""
        if key not in self._cache.approvals:
            self._cache.approvals[key] = made()
        return self._cache.approvals[key]

    def get_loaded_texts(self, key: Hashable, made: Callable[[], LoadedTexts]) -> LoadedTexts:  # noqa: ARG002
        """Where an agent's texts are kept: a new one, since what is loaded is read again after a conversation ended."""
        return made()

    @property
    def cache(self) -> ConversationCache:
        """What outlives the use of the conversation."""
        return self._cache

    def has_running_commands(self) -> bool:
        """Whether a command is still running that somebody talks to."""
        return any(talks.list_running() for talks in self._commands.values())

    def check_command(self, identity: str) -> None:
        """Raise `InvalidArgument` for an interactive command that has ended with its event loop."""
        if identity in self._cache.lost_commands:
            raise InvalidArgument(
                "session_id",
                f"{identity!r} has ended with the event loop in which it was started, and what it printed last is lost;"
                " start it again with skill_exec",
            )

    def defer_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Nobody uses it now, and its commands go on; `close` is called when their event loop is about to end."""
        self._running_ids = tuple(identity for talks in self._commands.values() for identity in talks.list_running())
        if self._at_loop_end is None:
            self._at_loop_end = LoopEndCallback(close)

    async def close_with_loop(self) -> None:
        """Close it because its event loop ends, or has ended; whoever asks for a command that ran will hear that."""
        self._cache.lost_commands.extend(self._running_ids)
        if not self.loop.is_closed():
            await self.close()
        elif self._runner is not None:
            # Commands that cannot be told to end without their loop end with what started them.
            with suppress(RuntimeError):
                await self._runner.close()
            self.uploads.leave_workspace()

    async def close(self) -> None:
        """Write what is left, and give the workspace back, also when it cannot be written; its files stay."""
        if self._at_loop_end is not None:
            self._at_loop_end.cancel()
        try:
            await self.flush()
        finally:
            for talks in self._commands.values():
                await talks.close()
            async with self._opening:
                if self._runner is not None:
                    await self._runner.close()
                    self._runner = None
                    # What is remembered of many conversations must not keep their workspaces in memory.
                    self.uploads.leave_workspace()


def _find_last_agent(skill: str, events: Sequence[Event]) -> str | None:
    """The agent that named a skill last in a call that loads it or selects its documents."""
    for event in reversed(events):
        if event.payload.get("skill") == skill and event.payload.get("tool") in (LOAD, SELECT):
            return event.author
    return None


MAX_CACHED_CONVERSATIONS = 256
"""Of so many conversations the answers of people and the files of users are kept between two uses."""

_CLOSE_TIMEOUT = 10.0
"""So many seconds another event loop has to close what belongs to it."""


@dataclass(slots=True)
class _ConversationLock:
    """Lets one at a time open or close a conversation, all of them in the event loop that it belongs to."""

    loop: asyncio.AbstractEventLoop
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class ConversationPool:
    """A table of conversations. One is opened for its first user and closed behind its last; none waits for another.

    As long as one is open it belongs to one event loop, and can be used in no other.
    """

    def __init__(self, make: Callable[[Scope, ConversationCache], Conversation]) -> None:
        self._make = make
        self._open: dict[Scope, Conversation] = {}
        self._locks: dict[Scope, _ConversationLock] = {}
        self._lock = threading.Lock()
        self._caches: OrderedDict[Scope, ConversationCache] = OrderedDict()

    async def acquire(self, scope: Scope, agent: str) -> Conversation:
        """The conversation of this scope, for an agent; whoever takes one gives it back.

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
                await opened.open(agent)
                self._open[scope] = opened
            opened.user_count += 1
            return opened

    async def release(self, opened: Conversation) -> None:
        """Be done with a conversation. A command that is still talked to outlives its users, and keeps it open.

        A cancellation waits until it is given back.
        """
        await shield_until_done(self._release(opened))

    async def _release(self, opened: Conversation) -> None:
        async with self._hold_lock(opened.scope):
            opened.user_count -= 1
            if opened.user_count:
                await opened.flush()
            elif opened.has_running_commands():
                opened.defer_close(lambda: self._close_with_loop(opened))
                await opened.flush()
            else:
                self._open.pop(opened.scope, None)
                await opened.close()

    async def close(self) -> list[BaseException]:
        """Close all of them, whatever happens to some; gives what was raised."""
        opened, self._open = list(self._open.values()), {}
        self._locks.clear()
        results = await asyncio.gather(*map(_close_conversation, opened), return_exceptions=True)
        return [result for result in results if isinstance(result, BaseException)]

    def find_loop(self, scope: Scope) -> asyncio.AbstractEventLoop | None:
        """The event loop in which commands of a conversation run that somebody talks to; None when there are none.

        Also None for one that does not run: nothing can be done there.
        """
        opened = self._open.get(scope)
        return (
            opened.loop if opened is not None and opened.loop.is_running() and opened.has_running_commands() else None
        )

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
        """One at a time opens or closes a conversation."""
        gate = self._get_lock(scope)
        gate.waiting += 1
        try:
            async with gate.lock:
                yield
        finally:
            gate.waiting -= 1
            if not gate.waiting and scope not in self._open and self._locks.get(scope) is gate:
                del self._locks[scope]

    def _get_lock(self, scope: Scope) -> _ConversationLock:
        here = asyncio.get_running_loop()
        with self._lock:
            gate = self._locks.get(scope)
            if gate is None or gate.loop.is_closed():
                gate = self._locks[scope] = _ConversationLock(here)
        if gate.loop is not here:
            raise ExecutorUnavailable(
                f"the conversation {scope.session!r} is in use in another event loop, or a command that it started "
                "there is running; use one loop for all its turns: either await all of them there, or let all block"
            )
        return gate


async def _close_conversation(opened: Conversation) -> None:
    """Close a conversation in the event loop that it belongs to."""
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
                f"a command of {opened.scope.session!r} runs in another event loop, which does not answer; "
                "await close() in that loop",
            ) from None
