"""All files below a directory, one after the other, opened by descriptors so that nothing can be swapped in between."""

import os
import stat
from collections.abc import Generator, Iterator
from typing import BinaryIO

from openskills.skillkit.confined import Root
from openskills.skillkit.glob import Glob

DEEPEST = 64
"""Directories in directories that are entered; each keeps a descriptor open."""


class Walk:
    """The ordinary files below a directory, in the order of their names, and what was left out on the way.

    Links are never followed and hidden names never looked at, so nothing is met twice and nothing leads out.
    """

    def __init__(self, root: Root, name: str = "", *, glob: Glob | None = None, field: str = "path") -> None:
        """Raises `ForbiddenPath` or `InvalidArgument` when `name` is no directory below the root."""
        self._start = root.open_directory(name, field=field)
        self._inner = root.inner(name, field=field)
        self._glob = glob
        self.links = 0
        self.special = 0
        self.unreadable = 0
        self.too_deep = 0

    def files(self) -> Generator[tuple[str, BinaryIO]]:
        """The path of each file below the root, and the file, open for reading until the next one is asked for.

        Memory is needed for the names of one directory at each level only. To be called once.
        """
        # Names are sorted backwards, so that the next one is at the end.
        levels = [(self._start, "", self._names(self._start))]
        try:
            while levels:
                directory, prefix, names = levels[-1]
                if not names:
                    os.close(directory)
                    levels.pop()
                    continue
                name = names.pop()
                path = f"{prefix}{name}"
                descriptor = self._opened(name, directory)
                if descriptor is None:
                    continue
                if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                    self._enter(levels, descriptor, path)
                else:
                    yield from self._file(descriptor, path)
        finally:
            for directory, _, _ in levels:
                os.close(directory)

    def _enter(self, levels: list[tuple[int, str, list[str]]], descriptor: int, path: str) -> None:
        if len(levels) >= DEEPEST:
            self.too_deep += 1
            os.close(descriptor)
        else:
            levels.append((descriptor, f"{path}/", self._names(descriptor)))

    def _file(self, descriptor: int, path: str) -> Iterator[tuple[str, BinaryIO]]:
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                self.special += 1
            elif self._glob is None or self._glob.fits(path):
                os.set_blocking(descriptor, True)
                yield (f"{self._inner}/{path}" if self._inner else path), file

    def _names(self, directory: int) -> list[str]:
        names: list[str] = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_symlink():
                        self.links += 1
                    elif self._wanted(entry):
                        names.append(entry.name)
        except OSError:
            self.unreadable += 1
        names.sort(reverse=True)
        return names

    def _wanted(self, entry: "os.DirEntry[str]") -> bool:
        """Directories and ordinary files; opening anything else might do something."""
        if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False):
            return True
        self.special += 1
        return False

    def _opened(self, name: str, directory: int) -> int | None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            return os.open(name, flags, dir_fd=directory)
        except OSError:
            # Gone or turned into a link since its directory was read, or not for us.
            self.unreadable += 1
            return None
