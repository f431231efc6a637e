"""The files that a skill may use: names from outside are looked up step by step below one directory, at use."""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded, SkillError
from openskills.paths import open_inside, relative
from openskills.skillkit.arriving import arriving, make_directory
from openskills.skillkit.surroundings import Surroundings

MAX_FILE = 5 * 1024 * 1024
"""Bytes of one file that are read unless a skill asks for more."""
MAX_RESULTS = 20
"""How many things a skill gives back unless it is asked for more."""


class Root:
    """A directory that outside names cannot leave.

    Names are relative: to the directory (`logs/app.log`), or to where it lies (`./data/logs/app.log`, when it is called
    `data`). Absolute names, `..`, and links that lead out are refused with `ForbiddenPath`; it is looked at while
    opening, so nobody can swap a link in between. FIFOs, devices and sockets are no files.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.name = os.path.basename(self.path) or "root"
        if not os.path.isdir(self.path):
            raise SkillError(f"there is no directory {self.name!r}; make it, or set OPENSKILL_ALLOWED_ROOT to another")

    def inner(self, name: str, *, field: str = "path") -> str:
        """An outside name as a path below this directory; empty for the directory itself. Looks at nothing."""
        if name.startswith("/"):
            raise ForbiddenPath(f"{field}: {name[:200]!r} is absolute; use a path such as ./{self.name}/notes.txt")
        if all(part in ("", ".") for part in name.split("/")):
            return ""
        parts = relative(name, field=field).parts
        return "/".join(parts[1:] if parts[0] == self.name else parts)

    def outer(self, inner: str) -> str:
        """How a path below this directory is called outside; `inner` understands it."""
        return f"{self.name}/{inner}" if inner else self.name

    def open(self, name: str, *, field: str = "path") -> BinaryIO:
        """Open a file for reading."""
        inner = self.inner(name, field=field)
        if not inner:
            raise InvalidArgument(field, f"{name!r} is a directory; name a file in it")
        descriptor = self._descriptor(inner, field)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise InvalidArgument(field, f"{self.outer(inner)!r} is no ordinary file")
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")

    def read(self, name: str, *, limit: int = MAX_FILE, field: str = "path") -> bytes:
        """The content of a file; `LimitExceeded` when it is larger than `limit` bytes."""
        with self.open(name, field=field) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise LimitExceeded(f"{field}: {name!r} is larger than {limit} bytes", field=field, limit=limit)
        return data

    def open_directory(self, name: str, *, field: str = "path") -> int:
        """A descriptor of a directory."""
        inner = self.inner(name, field=field)
        descriptor = self._descriptor(inner, field) if inner else os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise InvalidArgument(field, f"{self.outer(inner)!r} is no directory")
        return descriptor

    @contextmanager
    def writing(self, name: str, *, field: str = "path") -> Generator[BinaryIO]:
        """Write a file that appears whole when the block ends, and not at all when it fails. Replaces an older one.

        Directories on the way are made. A link in the place of the file is replaced, not followed.
        """
        inner = self.inner(name, field=field)
        folder, _, last = inner.rpartition("/")
        if not last:
            raise InvalidArgument(field, f"{name!r} names no file")
        directory = self._made(folder, field)
        try:
            if self._is_directory(last, directory):
                raise InvalidArgument(field, f"{self.outer(inner)!r} is a directory")
            with arriving(directory, last) as file:
                yield file
        finally:
            os.close(directory)

    @staticmethod
    def _is_directory(name: str, directory: int) -> bool:
        try:
            return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def _descriptor(self, inner: str, field: str) -> int:
        with _about(field, self.outer(inner)):
            return open_inside(self.path, inner, field=field)

    def _made(self, folder: str, field: str) -> int:
        """A descriptor of a directory below this one; what is missing of it is made."""
        made = ""
        for part in folder.split("/") if folder else ():
            parent = self.open_directory(self.outer(made), field=field)
            try:
                make_directory(parent, part)
            finally:
                os.close(parent)
            made = f"{made}/{part}" if made else part
        return self.open_directory(self.outer(folder), field=field)


@contextmanager
def _about(field: str, name: str) -> Generator[None]:
    """Errors of the system in words for whoever gave the name."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            raise InvalidArgument(field, f"there is no {name!r}") from None
        if error.errno == errno.ELOOP:
            raise ForbiddenPath(f"{field}: {name!r} is a link that leads in circles") from None
        if error.errno == errno.EINVAL:
            # What was a link is none any more when it is read.
            raise ForbiddenPath(f"{field}: {name!r} changed while it was opened") from None
        if error.errno == errno.EISDIR:
            raise InvalidArgument(field, f"{name!r} is a directory") from None
        raise SkillError(f"{field}: {name!r} cannot be used: {error.strerror}") from error


def root(path: str | None = None) -> Root:
    """The directory that this skill may use: `OPENSKILL_ALLOWED_ROOT`, or `./data`."""
    return Root(path if path is not None else Surroundings().allowed_root)
