"""What a call could have left in a sandbox for the next one to find, and how files that it left are removed.

A part of `hostmother.py`: it runs in the interpreter of a skill, so it imports nothing of ours. Only the process that
serves one slot uses it, in a sandbox that no other slot has, when no process of the call is left.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    # At run time all parts are in one namespace.
    from openskills.executors.inside.sandbox_traces import PLACES, surroundings  # noqa: TC004

_MOST_REMOVED = 10_000
_DEEPEST = 200


class Traces:
    """Remembers how a sandbox was before its first call."""

    def __init__(self) -> None:
        self._first = self._there(frozenset())
        self._others = surroundings()

    def undone(self) -> bool:
        """Remove the files that were not there at first; whether nothing else is different, either."""
        try:
            self._there(self._first)
            return surroundings() == self._others
        except OSError:
            return False

    def _there(self, known: frozenset[str]) -> frozenset[str]:
        """All that is in the file systems of the sandbox; with something `known`, what is not known is removed."""
        found: set[str] = set()
        for place in PLACES:
            _look(place, os.stat(place).st_dev, known, found, _DEEPEST)
        return frozenset(found)


def _look(directory: str, device: int, known: frozenset[str], found: set[str], depth: int) -> None:
    found.add(directory)
    if len(found) > _MOST_REMOVED or depth == 0:
        raise OSError("too much to look at")
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        there = os.lstat(path)
        is_ours = there.st_dev == device
        if stat.S_ISDIR(there.st_mode) and is_ours:
            if known and path not in known:
                os.chmod(path, 0o700)
            _look(path, device, known, found, depth - 1)
            if known and path not in known:
                os.rmdir(path)
        elif is_ours and known and path not in known:
            os.unlink(path)
        found.add(path)
