"""What was made of the last few lists, so that it is not made again for every call of the model."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Recent(Generic[Made]):
    """Remembers what was made of a list under given circumstances.

    A list is told from another by identity: within a run LangGraph gives the same one to every call of the model.
    """

    def __init__(self, kept: int = 16) -> None:
        self._kept = kept
        self._known: dict[tuple[object, ...], tuple[object, Made]] = {}

    def get(self, items: Sequence[object], circumstances: object, make: Callable[[], Made]) -> Made:
        """What was made of this list under these circumstances; made now if it is not among the last ones."""
        key = (id(items), len(items), circumstances)
        known = self._known.get(key)
        if known is not None:
            return known[1]
        made = make()
        if len(self._known) >= self._kept:
            self._known.clear()
        # Holding the list keeps another one from getting its identity.
        self._known[key] = (items, made)
        return made
