"""Conversations whose state is kept elsewhere, such as in a checkpoint of another framework."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from openskills.errors import ExecutorUnavailable
from openskills.executors.commands import CommandRunner
from openskills.prompt.usage import Ledger
from openskills.runtime.conversation import Conversation
from openskills.session.events import STATE_UPDATE
from openskills.session.memory import MemorySessionStore
from openskills.session.state import RecordedChange, SkillState, apply_changes
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
        self._trunk = trunk
        self._branch = branch
        # Everything but the state is that of the trunk.
        self.uploads = trunk.uploads
        self.log, self.listen, self.events = trunk.log, trunk.listen, trunk.events
        self.open_runner, self.prepare_workspace = trunk.open_runner, trunk.prepare_workspace
        self.get_commands, self.has_commands_of = trunk.get_commands, trunk.has_commands_of
        self.check_lease, self.check_command = trunk.check_lease, trunk.check_command
        self.get_approvals = trunk.get_approvals

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

    def get_loaded_texts(self, key: Hashable, made: Callable[[], LoadedTexts]) -> LoadedTexts:
        """The texts of the conversation, so that they are not read again for each use of a branch."""
        known = self._trunk.cache.loaded_texts
        return known.get(key) or known.setdefault(key, made())

    def get_ledger(self, agent: str) -> Ledger:
        """The usage of an agent in all branches."""
        return self._trunk.cache.ledgers.setdefault(agent, Ledger())


async def _refuse_runner(_: Conversation) -> CommandRunner:
    raise ExecutorUnavailable("a branch uses the workspace of its conversation")
