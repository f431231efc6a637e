"""The directories of a workspace that files are put into, opened and made beneath it."""

import os
from contextlib import suppress

from openskills.executors.files.openat2 import open_beneath
from openskills.executors.files.unlocked import open_unlocked

_FLAGS = os.O_RDONLY | os.O_DIRECTORY


class Directories:
    """Opens `work/…`, `out/…`, `runs/…`. What it makes belongs to `owner`, with mode 0700.

    Links that a script has made are followed within one of the three only: none leads from there to a skill.
    """

    def __init__(self, root: int, owner: tuple[int, int] | None) -> None:
        self._root = root
        self._owner = owner

    def open(self, where: str, *, links: bool = True) -> int:
        """A descriptor of a directory; raises `FileNotFoundError` when there is none."""
        top, _, rest = where.partition("/")
        base = open_beneath(self._root, top, _FLAGS, links=False)
        if not rest:
            return base
        try:
            return open_beneath(base, rest, _FLAGS, links=links)
        finally:
            os.close(base)

    def made(self, where: str, *, links: bool = True) -> int:
        """The same; what is missing on the way is made."""
        with suppress(FileNotFoundError):
            return self.open(where, links=links)
        top, *rest = where.split("/")
        base = self._step(self._root, top)
        current = os.dup(base)
        try:
            for count, part in enumerate(rest, 1):
                try:
                    below = open_beneath(base, "/".join(rest[:count]), _FLAGS, links=links)
                except FileNotFoundError:
                    below = self._step(current, part)
                os.close(current)
                current = below
            return os.dup(current)
        finally:
            os.close(current)
            os.close(base)

    def _step(self, directory: int, name: str) -> int:
        """Make a directory when it is missing, and open it."""
        try:
            os.mkdir(name, 0o700, dir_fd=directory)
        except FileExistsError:
            return open_beneath(directory, name, _FLAGS, links=False)
        # Whatever the umask has left of the mode.
        descriptor = open_unlocked(name, directory)
        os.fchmod(descriptor, 0o700)
        if self._owner is not None:
            os.fchown(descriptor, *self._owner)
        return descriptor
