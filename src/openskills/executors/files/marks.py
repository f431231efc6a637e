"""Moments of the file system's clock, to tell what was changed after them.

Change times are what we look at: a program can set the modification time of a file, but not its change time. They have
two faults. Most file systems give all changes within one tick of the clock (1 to 10 ms) the same one. And the clock can
be set.

A mark is the change time of a file of ours, out of the reach of scripts, that is touched until it differs from what the
first touch gave. Every earlier change has at most the first one, so it is below the mark; every later change has the
mark or more, because the clock that they are all taken from does not run backwards. Since Linux 6.13 the second touch
already differs (a change time that somebody has asked for is followed by an exact one, and no later change anywhere
gets an earlier one); on other systems this waits for the next tick.
"""

import os
import time
from pathlib import Path

_LONGEST = 0.05
_PAUSE = 0.0005


class Marker:
    """Makes marks. The file is made where it is missing; the directory is one that scripts cannot reach."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)

    def mark(self) -> int:
        """A moment: what was changed before has an earlier change time, what is changed from now on this or a later.

        Where change times do not move on within 50 ms (some file systems count seconds), what was changed in the same
        second before counts as changed after it.
        """
        first = self._touched()
        deadline = time.monotonic() + _LONGEST
        while (stamp := self._touched()) == first:
            if time.monotonic() > deadline:
                return first
            time.sleep(_PAUSE)
        return stamp

    def holds(self, mark: int) -> bool:
        """Whether the clock is at the mark or after it; it is not when somebody has set it back."""
        return self._touched() >= mark

    def close(self) -> None:
        """Give back the descriptor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _touched(self) -> int:
        os.utime(self._descriptor)
        return os.fstat(self._descriptor).st_ctime_ns
