"""Where a thread keeps the list of skills: small ones in its checkpoints, long ones only while it runs."""

from collections.abc import Sequence
from typing import Any, Self, cast

from langgraph.channels import UntrackedValue
from typing_extensions import override

KEPT_SKILLS = 16
"""The longest list that goes into checkpoints. A longer one is found again quicker than it is read from one."""


class Remembered(list[Any]):
    """A list of skills out of a checkpoint: right when it was written, perhaps not now."""


class CatalogChannel(UntrackedValue[Any]):
    """The last list of skills that was written.

    Upstream keeps it in every checkpoint, 258 KB for 1,000 skills. Writes to this channel are never stored, and a
    checkpoint gets the list only while it is short. Its form there is upstream's, so each opens threads of the other:
    what is missing is found when it is needed.
    """

    @override
    def update(self, values: Sequence[Any]) -> bool:
        # Calls of one message may each have looked; what they found is the same, or the last is the newest.
        return super().update(values[-1:])

    @override
    def checkpoint(self) -> Any:
        value = cast("object", self.value)
        if not isinstance(value, list):
            return value
        skills = cast("list[object]", value)
        return list(skills) if len(skills) <= KEPT_SKILLS else super().checkpoint()

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        channel = super().from_checkpoint(checkpoint)
        if isinstance(checkpoint, list):
            channel.value = Remembered(cast("list[object]", checkpoint))
        elif checkpoint is None:
            channel.value = None
        return channel
