"""A conversation whose state somebody else keeps, such as a checkpoint of another framework."""

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from openskills.errors import ExecutorUnavailable
from openskills.executors.commands import CommandRules, CommandRunner
from openskills.executors.interactive import InteractiveCommands, ProcessOwner, ProcessTable
from openskills.prompt.usage import Ledger
from openskills.runtime.conversation import Conversation
from openskills.session.events import STATE_UPDATE, Event
from openskills.session.memory import MemorySessionStore
from openskills.session.state import RecordedChange, SkillState, apply_changes
from openskills.tools.approvals import Approvals
from openskills.tools.loaded_texts import LoadedTexts


@dataclass(slots=True)
class Branch:
    """What is loaded somewhere in a conversation, and what has changed since: `apply` of both gives what is loaded now.

    Whoever goes back to an earlier `state` goes on from there, as often as he likes. Calls that are made at the same
    time each have a branch of their own; the `clock` of its state decides which of them comes later.
    """

    state: SkillState = field(default_factory=SkillState)
    changes: list[RecordedChange] = field(default_factory=list[RecordedChange])


class BranchedConversation(Conversation):
    """The workspace, the files and the log of a conversation, with the state of a branch in the place of its own.

    Nothing of the state is read from the store or written to it.
    """

    def __init__(self, trunk: Conversation, branch: Branch) -> None:
        super().__init__(trunk.scope, MemorySessionStore(), _refuse_runner)
        self.state = branch.state
        self.uploads = trunk.uploads
        self._trunk = trunk
        self._branch = branch

    def fold(
        self,
        changes: Iterable[RecordedChange],
        agent: str,  # noqa: ARG002
        about: Mapping[str, Any],  # noqa: ARG002
        *,
        kind: str = STATE_UPDATE,  # noqa: ARG002
    ) -> None:
        """Let changes happen in the branch; whoever keeps its state has them in `Branch.changes`."""
        happened = list(changes)
        self.state = apply_changes(self.state, happened)
        self._branch.state = self.state
        self._branch.changes += happened

    async def log(self, event: Event) -> None:
        """See `Conversation.log`."""
        await self._trunk.log(event)

    @contextmanager
    def listen(self, listener: Callable[[Event], None]) -> Generator[None]:
        """See `Conversation.listening`."""
        with self._trunk.listen(listener):
            yield

    async def events(self) -> tuple[Event, ...]:
        """See `Conversation.events`."""
        return await self._trunk.events()

    async def open_runner(self, agent: str, rules: CommandRules) -> CommandRunner:
        """See `Conversation.bench`."""
        return await self._trunk.open_runner(agent, rules)

    def get_commands(self, owner: ProcessOwner, bench: CommandRunner, processes: ProcessTable) -> InteractiveCommands:
        """See `Conversation.talks`."""
        return self._trunk.get_commands(owner, bench, processes)

    def check_command(self, identity: str) -> None:
        """See `Conversation.check_command`."""
        self._trunk.check_command(identity)

    def get_approvals(self, key: Hashable, made: Callable[[], Approvals]) -> Approvals:
        """See `Conversation.approvals`."""
        return self._trunk.get_approvals(key, made)

    def get_loaded_texts(self, key: Hashable, made: Callable[[], LoadedTexts]) -> LoadedTexts:
        """The texts that this conversation has read: a branch is used once, and nothing is to be read for each use."""
        known = self._trunk.cache.loaded_texts
        return known.get(key) or known.setdefault(key, made())

    def get_ledger(self, agent: str) -> Ledger:
        """What the requests of an agent have cost, in all branches: no text is counted for each use either."""
        return self._trunk.cache.ledgers.setdefault(agent, Ledger())


async def _refuse_runner() -> CommandRunner:
    raise ExecutorUnavailable("a branch has the workspace of its conversation")
