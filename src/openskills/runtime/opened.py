"""What all agents of one conversation share: its state and its log, its workspace, its files."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from openskills.artifacts.store import Scope
from openskills.errors import InvalidArgument
from openskills.executors.conversations import Conversations
from openskills.executors.processes.interactive import Owner, Processes
from openskills.executors.workbench import Rules, Workbench
from openskills.prompt.ledger import Ledger
from openskills.runtime.loop_end import AtLoopEnd
from openskills.session.changes import Recorded, Unloaded
from openskills.session.events import STATE_UPDATE, Event, applied, new_event
from openskills.session.keys import delta, from_keys, to_keys
from openskills.session.legacy import migrate
from openskills.session.state import SkillState, apply
from openskills.session.store import SessionKey, SessionStore
from openskills.tools.approvals import Approvals
from openskills.tools.profiles import LOAD, SELECT
from openskills.tools.shelf import Shelf
from openskills.tools.uploads import Uploads

_MORE_THAN_ANY = 2**53
"""More events than any log has."""

_LOST = 64
"""So many commands are remembered that ended with their event loop."""


@dataclass(slots=True)
class Remembered:
    """What of a conversation outlives its use, in this process: files of the user, what people have answered.

    `shelves` and `ledgers` are the texts and the requests of agents that are used through branches; `lost` are commands
    that ended with the event loop in which they were started.
    """

    uploads: Uploads = field(default_factory=Uploads)
    approvals: dict[Hashable, Approvals] = field(default_factory=dict[Hashable, Approvals])
    shelves: dict[Hashable, Shelf] = field(default_factory=dict[Hashable, Shelf])
    ledgers: dict[str, Ledger] = field(default_factory=dict[str, Ledger])
    lost: deque[str] = field(default_factory=lambda: deque[str](maxlen=_LOST))


class OpenedSession:
    """One conversation, as long as anybody uses it. It belongs to one event loop."""

    def __init__(
        self,
        scope: Scope,
        store: SessionStore,
        open_bench: Callable[[], Awaitable[Workbench]],
        remembered: Remembered | None = None,
    ) -> None:
        self.scope = scope
        self.loop = asyncio.get_running_loop()
        self.state = SkillState()
        self._remembered = remembered or Remembered()
        self.uploads = self._remembered.uploads
        self.users = 0
        self._store = store
        self._key = SessionKey(scope.app, scope.user, scope.session)
        self._open_bench = open_bench
        self._bench: Workbench | None = None
        self._opening = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._talks: dict[Owner, Conversations] = {}
        self._outliving: tuple[str, ...] = ()
        self._at_loop_end: AtLoopEnd | None = None
        self._pending: list[Event] = []
        self._listeners: list[Callable[[Event], None]] = []

    async def open(self, agent: str) -> None:
        """Read what the store knows, with keys of older versions moved to where they belong now.

        The log is read only where it has to tell whose such keys are: what is loaded stands in the state.
        """
        found = await self._store.get(self._key, after=_MORE_THAN_ANY)
        if found is None:
            return
        if migrate(found.state, agent, lambda _: None):
            found = await self._store.get(self._key) or found
        moved = migrate(found.state, agent, lambda skill: _last_to_touch(skill, found.events))
        self.state = from_keys(applied(found.state, moved))
        if moved:
            self._pending.append(new_event(agent, STATE_UPDATE, {"why": "keys of an older version"}, moved))
            await self.flush()

    def tick(self) -> int:
        """A number for the next call, greater than all before it."""
        self.state = replace(self.state, clock=self.state.clock + 1)
        return self.state.clock

    def fold(
        self, changes: Iterable[Recorded], agent: str, about: Mapping[str, Any], *, kind: str = STATE_UPDATE
    ) -> None:
        """Let changes happen now; they are written with the next `flush`, as an event with `about` for its content.

        An update of the state that changes nothing is no event; anything else that happened is one.
        """
        before = self.state
        happened = list(changes)
        self.state = apply(before, happened)
        found = delta(before, self.state, agents={recorded.agent for recorded in happened})
        if found or kind != STATE_UPDATE:
            self._pending.append(new_event(agent, kind, about, found))

    async def log(self, event: Event) -> None:
        """Write an event after all that happened before it."""
        self._pending.append(event)
        await self.flush()

    @contextmanager
    def listening(self, listener: Callable[[Event], None]) -> Generator[None]:
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
                    self._follow(stored.state)

    def _follow(self, keys: Mapping[str, str]) -> None:
        for event in self._pending:
            keys = applied(keys, event.delta)
        stored = from_keys(keys)
        gone = [
            Recorded(entry.loaded, agent, Unloaded(skill, evicted=True))
            for (agent, skill), entry in self.state.entries.items()
            if self.state.of(agent).is_loaded(skill) and not stored.of(agent).is_loaded(skill)
        ]
        self.state = apply(self.state, gone)

    def keys(self) -> dict[str, str]:
        """The state in the words of the mission documents."""
        return to_keys(self.state)

    async def bench(self, agent: str, rules: Rules) -> Workbench:
        """The workspace, opened when it is first asked for; the agent's runs are noted under its name."""
        async with self._opening:
            if self._bench is None:
                self._bench = await self._open_bench()
            return self._bench.for_agent(agent, rules)

    def talks(self, owner: Owner, bench: Workbench, processes: Processes) -> Conversations:
        """The interactive commands of an agent, the same in every turn; new ones start by the rules of `bench`."""
        if owner not in self._talks:
            self._talks[owner] = Conversations(bench, processes, owner)
        return self._talks[owner].on(bench)

    def approvals(self, key: Hashable, made: Callable[[], Approvals]) -> Approvals:
        """What people have answered to those who ask in the same way."""
        if key not in self._remembered.approvals:
            self._remembered.approvals[key] = made()
        return self._remembered.approvals[key]

    def shelf(self, key: Hashable, made: Callable[[], Shelf]) -> Shelf:  # noqa: ARG002
        """Where an agent's texts are kept: a new one, since what is loaded is read again after a conversation ended."""
        return made()

    @property
    def remembered(self) -> Remembered:
        """What outlives the use of the conversation."""
        return self._remembered

    def is_talking(self) -> bool:
        """Whether a command is still running that somebody talks to."""
        return any(talks.running() for talks in self._talks.values())

    def check_command(self, identity: str) -> None:
        """Raise `InvalidArgument` for an interactive command that has ended with its event loop."""
        if identity in self._remembered.lost:
            raise InvalidArgument(
                "session_id",
                f"{identity!r} has ended with the event loop in which it was started, and what it printed last is lost;"
                " start it again with skill_exec",
            )

    def outlive(self, close: Callable[[], Awaitable[None]]) -> None:
        """Nobody uses it now, and its commands go on; `close` is called when their event loop is about to end."""
        self._outliving = tuple(identity for talks in self._talks.values() for identity in talks.running())
        if self._at_loop_end is None:
            self._at_loop_end = AtLoopEnd(close)

    async def end_with_its_loop(self) -> None:
        """Close it because its event loop ends, or has ended; whoever asks for a command that ran will hear that."""
        self._remembered.lost.extend(self._outliving)
        if not self.loop.is_closed():
            await self.close()
        elif self._bench is not None:
            # Commands that cannot be told to end without their loop end with what started them.
            with suppress(RuntimeError):
                await self._bench.close()
            self.uploads.leave()

    async def close(self) -> None:
        """Write what is left, and give the workspace back, also when it cannot be written; its files stay."""
        if self._at_loop_end is not None:
            self._at_loop_end.forget()
        try:
            await self.flush()
        finally:
            for talks in self._talks.values():
                await talks.close()
            async with self._opening:
                if self._bench is not None:
                    await self._bench.close()
                    self._bench = None
                    # What is remembered of many conversations must not keep their workspaces in memory.
                    self.uploads.leave()


def _last_to_touch(skill: str, events: Sequence[Event]) -> str | None:
    """The agent that named a skill last in a call that loads it or selects its documents."""
    for event in reversed(events):
        if event.payload.get("skill") == skill and event.payload.get("tool") in (LOAD, SELECT):
            return event.author
    return None
