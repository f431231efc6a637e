"""Which files of a workspace match, found by reading no more directories than that takes."""

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from openskills.executors.files.descent import Descent
from openskills.executors.files.globs import Globs, Position
from openskills.executors.layout import LINKS, SKILLS
from openskills.executors.spec import FileInfo, Listing
from openskills.paths import MAX_PATH, printable

MAX_ENTRIES = 1_000_000
MAX_SKIPPED = 100

_GONE = frozenset({errno.ENOENT, errno.ESTALE})
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def info_of(path: str, status: os.stat_result) -> FileInfo:
    """What is known about a file."""
    return FileInfo(
        path, status.st_size, (status.st_ctime_ns, status.st_ino, status.st_size), bool(status.st_mode & 0o100)
    )


def listing(directory: int, globs: Globs, *, since: int | None, limit: int) -> Listing:
    """The regular files below the directory of this descriptor that match, changed at `since` or later.

    Nothing is opened but directories, and no link is followed. Ends early, and says so, at `limit` files and after a
    million entries. Without those two the answer only depends on what is there.
    """
    return _Walk(directory, globs, since, limit, MAX_ENTRIES).run()


def small_listing(directory: int, globs: Globs, *, since: int | None, limit: int, entries: int) -> Listing | None:
    """The same, where it can be told by looking at no more than `entries` entries; None where it takes more."""
    walk = _Walk(directory, globs, since, limit, entries)
    found = walk.run()
    return found if walk.entries <= entries else None


@dataclass(slots=True)
class _Level:
    """A directory that is being read: its path with a slash, and the directories in it that are still to be read."""

    prefix: str
    waiting: list[tuple[str, Position]]


class _Walk:
    def __init__(self, directory: int, globs: Globs, since: int | None, limit: int, most: int) -> None:
        self._directory = directory
        self._globs = globs
        self._since = since
        self._limit = limit
        self._most = most
        self.entries = 0
        self._found: list[FileInfo] = []
        self._skipped: list[str] = []
        self._complete = True

    def run(self) -> Listing:
        with Descent(self._directory) as descent:
            levels = [self._read(descent.descriptor, "", self._globs.start)]
            while levels and not self._is_full():
                self._advance(descent, levels)
        self._found.sort(key=lambda info: info.path)
        return Listing(tuple(self._found), tuple(self._skipped), self._complete)

    def _advance(self, descent: Descent, levels: list[_Level]) -> None:
        """Read the next directory, or go up when there is none here."""
        level = levels[-1]
        if level.waiting:
            name, position = level.waiting.pop()
            if self._entered(descent, level.prefix, name):
                levels.append(self._read(descent.descriptor, f"{level.prefix}{name}/", position))
            return
        levels.pop()
        if levels:
            try:
                descent.leave()
            except OSError:
                # Moved by somebody. What is left there cannot be reached any more by the way we came.
                levels.clear()
                self._complete = False

    def _is_full(self) -> bool:
        if len(self._found) > self._limit:
            self._found.pop()
            self._complete = False
        elif self.entries <= self._most:
            return False
        self._complete = False
        return True

    def _entered(self, descent: Descent, prefix: str, name: str) -> bool:
        path = prefix + name
        if len(os.fsencode(path)) >= MAX_PATH - 256:
            self._skip(path[:64] + "…", "is too deep")
            self._complete = False
            return False
        try:
            descent.enter(name)
        except OSError as error:
            if error.errno not in _GONE and error.errno not in (errno.ENOTDIR, errno.ELOOP):
                self._skip(path, f"cannot be read ({error.strerror})")
            return False
        return True

    def _read(self, descriptor: int, prefix: str, position: Position) -> _Level:
        """Take the files of one directory, in the order of their names, and note its directories."""
        level = _Level(prefix, [])
        for name, mode in sorted(self._names(descriptor, position)):
            if stat.S_ISDIR(mode):
                below = position.below(name)
                if below:
                    level.waiting.append((name, below))
            elif not stat.S_ISREG(mode):
                self._special(prefix, name, mode, position)
            elif position.accepts(name) and len(self._found) <= self._limit:
                self._take(descriptor, prefix, name)
        level.waiting.reverse()
        return level

    def _names(self, descriptor: int, position: Position) -> Iterator[tuple[str, int]]:
        if position.names is not None:
            for name in position.names:
                try:
                    yield name, os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
                except OSError:
                    continue
            return
        with os.scandir(descriptor) as entries:
            for entry in entries:
                self.entries += 1
                if self.entries > self._most:
                    return
                yield entry.name, _kind(entry)

    def _take(self, descriptor: int, prefix: str, name: str) -> None:
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except OSError:
            return
        if not stat.S_ISREG(status.st_mode) or (self._since is not None and status.st_ctime_ns < self._since):
            return
        path = prefix + name
        if any("\udc80" <= char <= "\udcff" for char in path):
            self._skip(path, "has a name that is not UTF-8")
        else:
            self._found.append(info_of(path, status))

    def _special(self, prefix: str, name: str, mode: int, position: Position) -> None:
        ours = name in LINKS and prefix.startswith(f"{SKILLS}/") and prefix.count("/") == 2
        if not ours and (position.accepts(name) or (stat.S_ISLNK(mode) and position.below(name))):
            self._skip(prefix + name, f"is {_KINDS.get(stat.S_IFMT(mode), 'no file')}")

    def _skip(self, path: str, why: str) -> None:
        if len(self._skipped) < MAX_SKIPPED:
            self._skipped.append(f"{printable(path)} {why}")


def _kind(entry: "os.DirEntry[str]") -> int:
    """The kind of an entry, mostly without asking the system."""
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    if entry.is_symlink():
        return stat.S_IFLNK
    try:
        return entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return 0
