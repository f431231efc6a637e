"""A conversation whose state somebody else keeps, such as a checkpoint of another framework."""

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from openskills.errors import ExecutorUnavailable
from openskills.executors.conversations import Conversations
from openskills.executors.processes.interactive import Owner, Processes
from openskills.executors.workbench import Rules, Workbench
from openskills.prompt.ledger import Ledger
from openskills.runtime.opened import OpenedSession
from openskills.session.changes import Recorded
from openskills.session.events import STATE_UPDATE, Event
from openskills.session.memory import MemorySessionStore
from openskills.session.state import SkillState, apply
from openskills.tools.approvals import Approvals
from openskills.tools.shelf import Shelf


@dataclass(slots=True)
class Branch:
    """What is loaded somewhere in a conversation, and what has changed since: `apply` of both gives what is loaded now.

    Whoever goes back to an earlier `state` goes on from there, as often as he likes. Calls that are made at the same
    time each have a branch of their own; the `clock` of its state decides which of them comes later.
    """

    state: SkillState = field(default_factory=SkillState)
    changes: list[Recorded] = field(default_factory=list[Recorded])


class BranchedSession(OpenedSession):
    """The workspace, the files and the log of a conversation, with the state of a branch in the place of its own.

    Nothing of the state is read from the store or written to it.
    """

    def __init__(self, trunk: OpenedSession, branch: Branch) -> None:
        super().__init__(trunk.scope, MemorySessionStore(), _no_bench)
        self.state = branch.state
        self.uploads = trunk.uploads
        self._trunk = trunk
        self._branch = branch

    def fold(
        self,
        changes: Iterable[Recorded],
        agent: str,  # noqa: ARG002
        about: Mapping[str, Any],  # noqa: ARG002
        *,
        kind: str = STATE_UPDATE,  # noqa: ARG002
    ) -> None:
        """Let changes happen in the branch; whoever keeps its state has them in `Branch.changes`."""
        happened = list(changes)
        self.state = apply(self.state, happened)
        self._branch.state = self.state
        self._branch.changes += happened

    async def log(self, event: Event) -> None:
        """See `OpenedSession.log`."""
        await self._trunk.log(event)

    @contextmanager
    def listening(self, listener: Callable[[Event], None]) -> Generator[None]:
        """See `OpenedSession.listening`."""
        with self._trunk.listening(listener):
            yield

    async def events(self) -> tuple[Event, ...]:
        """See `OpenedSession.events`."""
        return await self._trunk.events()

    async def bench(self, agent: str, rules: Rules) -> Workbench:
        """See `OpenedSession.bench`."""
        return await self._trunk.bench(agent, rules)

    def talks(self, owner: Owner, bench: Workbench, processes: Processes) -> Conversations:
        """See `OpenedSession.talks`."""
        return self._trunk.talks(owner, bench, processes)

    def check_command(self, identity: str) -> None:
        """See `OpenedSession.check_command`."""
        self._trunk.check_command(identity)

    def approvals(self, key: Hashable, made: Callable[[], Approvals]) -> Approvals:
        """See `OpenedSession.approvals`."""
        return self._trunk.approvals(key, made)

    def shelf(self, key: Hashable, made: Callable[[], Shelf]) -> Shelf:
        """The texts that this conversation has read: a branch is used once, and nothing is to be read for each use."""
        known = self._trunk.remembered.shelves
        return known.get(key) or known.setdefault(key, made())

    def ledger(self, agent: str) -> Ledger:
        """What the requests of an agent have cost, in all branches: no text is counted for each use either."""
        return self._trunk.remembered.ledgers.setdefault(agent, Ledger())


async def _no_bench() -> Workbench:
    raise ExecutorUnavailable("a branch has the workspace of its conversation")
