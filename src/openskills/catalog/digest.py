"""One digest for everything in a folder, so that an agreement to it ends when anything in it changes."""

import hashlib
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from openskills.errors import LimitExceeded

MAX_ENTRIES = 20_000
MAX_BYTES = 512 * 1024 * 1024
_CHUNK = 1024 * 1024
# O_NONBLOCK: what was a file a moment ago may be a FIFO now, and must not make us wait.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def digest_of(folder: Path, confine: Path) -> str:
    """A digest over every file in `folder`: names, content, executable bits, and what links say and lead to.

    The content behind a link counts as long as it lies in `confine`: no other link is ever followed to a skill. The
    same folder has the same digest whichever way leads to it. Raises `LimitExceeded` when there is more than anybody
    would call a set of skills, `OSError` when something cannot be read.
    """
    return _Digest(folder, confine).run()


class _Digest:
    def __init__(self, folder: Path, confine: Path) -> None:
        self._shown = folder
        self._top = os.path.realpath(folder)
        self._confine = Path(os.path.realpath(confine))
        self._entries = MAX_ENTRIES
        self._bytes = MAX_BYTES

    def run(self) -> str:
        whole = hashlib.sha256()
        for path in self._walk():
            name = os.fsencode(os.path.relpath(path, self._top))
            # Neither can hold a NUL, so no two lists of files give the same bytes.
            whole.update(b"%s\0%s\0" % (name, self._content(path)))
        return whole.hexdigest()

    def _walk(self) -> Iterator[str]:
        """Every file and every link, each directory once, in an order that only depends on the names."""
        seen: set[str] = set()
        waiting = [self._top]
        while waiting:
            directory = waiting.pop()
            real = os.path.realpath(directory)
            if real in seen or not self._confined(real):
                continue
            seen.add(real)
            for entry in self._listing(directory):
                is_directory = entry.is_dir(follow_symlinks=False)
                if is_directory or (entry.is_symlink() and os.path.isdir(entry.path)):
                    waiting.append(entry.path)
                if not is_directory:
                    yield entry.path

    def _listing(self, directory: str) -> list[os.DirEntry[str]]:
        with os.scandir(directory) as entries:
            found = list(islice(entries, self._entries + 1))
        self._entries -= len(found)
        self._stay_within_limits()
        return sorted(found, key=lambda entry: entry.name)

    def _content(self, path: str) -> bytes:
        if not os.path.islink(path):
            return self._file(path)
        real = os.path.realpath(path)
        counts = self._confined(real) and os.path.isfile(real)
        return b"link %s %s" % (self._file(real) if counts else b"-", os.fsencode(os.readlink(path)))

    def _file(self, path: str) -> bytes:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return b"special"
        with open(os.open(path, _FLAGS), "rb") as file:
            status = os.fstat(file.fileno())
            self._bytes -= status.st_size
            self._stay_within_limits()
            content = hashlib.sha256()
            # Up to its size: a file that grows while it is read has another digest the next time.
            left = status.st_size
            while chunk := file.read(min(left, _CHUNK)):
                content.update(chunk)
                left -= len(chunk)
        return b"file %d %s" % (bool(status.st_mode & 0o111), content.hexdigest().encode())

    def _confined(self, real: str) -> bool:
        return Path(real).is_relative_to(self._confine)

    def _stay_within_limits(self) -> None:
        if self._entries < 0 or self._bytes < 0:
            limits = f"{MAX_ENTRIES:,} files and folders or {MAX_BYTES:,} bytes"
            raise LimitExceeded(f"{self._shown} has more than {limits}; move what is not a skill out of it")
