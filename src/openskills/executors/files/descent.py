"""Down into a directory and up again by descriptors: at any depth, with few of them, following no link."""

import errno
import os
from dataclasses import dataclass

_KEPT = 32
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _Above:
    """A directory that we came through: its descriptor, or who it is when the descriptor was given back."""

    descriptor: int
    identity: tuple[int, int]


class Descent:
    """A place in a tree of directories that others may change meanwhile. Close it, or use it as `with`."""

    def __init__(self, directory: int) -> None:
        """Begin in the directory of this descriptor, which stays the caller's."""
        self.descriptor = os.dup(directory)
        self._above: list[_Above] = []

    @property
    def depth(self) -> int:
        """How many directories below the first one we are."""
        return len(self._above)

    def enter(self, name: str) -> None:
        """Go down into a directory. Raises `OSError` for a link, a file, or nothing; then we are where we were."""
        below = os.open(name, _FLAGS, dir_fd=self.descriptor)
        self.follow(below)

    def follow(self, below: int) -> None:
        """Go down into a directory that is open already; the descriptor is ours from now on."""
        # Near the top the way back stays open; further down, going up is checked instead.
        if len(self._above) < _KEPT:
            self._above.append(_Above(self.descriptor, (0, 0)))
        else:
            self._above.append(_Above(-1, _identity(self.descriptor)))
            os.close(self.descriptor)
        self.descriptor = below

    def leave(self) -> None:
        """Go up to the directory that we came from.

        Raises `OSError` (ESTALE) when somebody has moved the one we are in, so that its parent is another one now.
        """
        above = self._above[-1]
        descriptor = above.descriptor
        if descriptor < 0:
            descriptor = os.open("..", _FLAGS, dir_fd=self.descriptor)
            if _identity(descriptor) != above.identity:
                os.close(descriptor)
                raise OSError(errno.ESTALE, "a directory was moved while it was read")
        self._above.pop()
        os.close(self.descriptor)
        self.descriptor = descriptor

    def close(self) -> None:
        """Give back every descriptor."""
        for descriptor in (self.descriptor, *(above.descriptor for above in self._above)):
            if descriptor >= 0:
                os.close(descriptor)
        self._above.clear()
        self.descriptor = -1

    def __enter__(self) -> "Descent":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino
