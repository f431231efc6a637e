"""Conversations whose state is kept elsewhere, such as in a checkpoint of another framework."""

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
    """The state at some point of a conversation, and the changes since; `apply_changes` gives the current state.

    A caller may return to an earlier `state` any number of times. Concurrent calls have separate branches; the `clock`
    of their states decides which comes later.
    """

    state: SkillState = field(default_factory=SkillState)
    changes: list[RecordedChange] = field(default_factory=list[RecordedChange])


class BranchedConversation(Conversation):
    """A conversation with the state of a branch instead of its own; that state is neither read from nor stored in the
    session store."""

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
        """Apply changes to the branch; they are also in `Branch.changes`."""
        happened = list(changes)
        self.state = apply_changes(self.state, happened)
        self._branch.state = self.state
        self._branch.changes += happened

    async def log(self, event: Event) -> None:
        """See `Conversation.log`."""
        await self._trunk.log(event)

    @contextmanager
    def listen(self, listener: Callable[[Event], None]) -> Generator[None]:
        """See `Conversation.listen`."""
        with self._trunk.listen(listener):
            yield

    async def events(self) -> tuple[Event, ...]:
        """See `Conversation.events`."""
        return await self._trunk.events()

    async def open_runner(self, agent: str, rules: CommandRules) -> CommandRunner:
        """See `Conversation.open_runner`."""
        return await self._trunk.open_runner(agent, rules)

    def get_commands(self, owner: ProcessOwner, runner: CommandRunner, processes: ProcessTable) -> InteractiveCommands:
        """See `Conversation.get_commands`."""
        return self._trunk.get_commands(owner, runner, processes)

    def has_commands_of(self, agent: str) -> bool:
        """See `Conversation.has_commands_of`."""
        return self._trunk.has_commands_of(agent)

    async def check_lease(self) -> None:
        """See `Conversation.check_lease`."""
        await self._trunk.check_lease()

    def check_command(self, identity: str) -> None:
        """See `Conversation.check_command`."""
        self._trunk.check_command(identity)

    def get_approvals(self, key: Hashable, made: Callable[[], Approvals]) -> Approvals:
        """See `Conversation.get_approvals`."""
        return self._trunk.get_approvals(key, made)

    def get_loaded_texts(self, key: Hashable, made: Callable[[], LoadedTexts]) -> LoadedTexts:
        """The texts of the conversation, so that they are not read again for each use of a branch."""
        known = self._trunk.cache.loaded_texts
        return known.get(key) or known.setdefault(key, made())

    def get_ledger(self, agent: str) -> Ledger:
        """The usage of an agent in all branches."""
        return self._trunk.cache.ledgers.setdefault(agent, Ledger())


async def _refuse_runner() -> CommandRunner:
    raise ExecutorUnavailable("a branch uses the workspace of its conversation")
