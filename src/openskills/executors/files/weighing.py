"""How much a directory holds, whatever a script did to hide it."""

import os

from openskills.executors.files.descent import Descent
from openskills.executors.files.unlocked import open_unlocked
from openskills.executors.spec import Usage


def weigh(directory: int, *, without: frozenset[str] = frozenset(), at_most: int | None = None) -> Usage:
    """The bytes on disk and the entries below the directory of this descriptor, `without` some names at its top.

    What has several names counts once. Directories count as entries. Ends early, with what it has, when there are more
    than `at_most` entries.
    """
    scale = _Scale(at_most)
    with Descent(directory) as descent:
        waiting = [scale.put(descent.descriptor, without)]
        while waiting and not scale.is_full():
            if not waiting[-1]:
                waiting.pop()
                if waiting and not _left(descent):
                    break
            elif _entered(descent, waiting[-1].pop()):
                waiting.append(scale.put(descent.descriptor))
    return Usage(scale.bytes, scale.entries)


class _Scale:
    def __init__(self, at_most: int | None) -> None:
        self.bytes = 0
        self.entries = 0
        self._at_most = at_most
        self._seen: set[tuple[int, int]] = set()

    def put(self, descriptor: int, without: frozenset[str] = frozenset()) -> list[str]:
        """Count what is in one directory; the directories in it are returned."""
        below: list[str] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if entry.name in without:
                    continue
                self._count(entry)
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
                if self.is_full():
                    break
        return below

    def is_full(self) -> bool:
        return self._at_most is not None and self.entries > self._at_most

    def _count(self, entry: "os.DirEntry[str]") -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if status.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
            identity = (status.st_dev, status.st_ino)
            if identity in self._seen:
                return
            self._seen.add(identity)
        self.bytes += status.st_blocks * 512
        self.entries += 1


def _entered(descent: Descent, name: str) -> bool:
    try:
        descent.follow(open_unlocked(name, descent.descriptor))
    except OSError:
        # Gone meanwhile, or somebody else's: it has been counted itself.
        return False
    return True


def _left(descent: Descent) -> bool:
    try:
        descent.leave()
    except OSError:
        return False
    return True
