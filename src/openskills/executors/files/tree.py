"""The files of one workspace, as the host touches them: by descriptors, confined, whatever scripts do meanwhile.

All methods block and may be called from any thread.
"""

import os
import secrets
import stat
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.files.arrival import Arrival
from openskills.executors.files.directories import Directories
from openskills.executors.files.faults import told
from openskills.executors.files.globs import compiled
from openskills.executors.files.listing import info_of, listing, small_listing
from openskills.executors.files.marks import Marker
from openskills.executors.files.openat2 import PATH_ONLY, open_beneath, opened
from openskills.executors.files.places import WRITABLE, place, writable_place
from openskills.executors.files.removal import remove_entry
from openskills.executors.spec import FileInfo, Listing
from openskills.files import ARRIVING

MARKER = "marker"
"""The name of the file, beside the tree, that marks are made with."""

_FEW = 64


class Tree:
    """One workspace directory. `owner` is who gets what the host puts there: the user of its commands, if not us."""

    def __init__(self, root: Path, *, owner: tuple[int, int] | None = None) -> None:
        self._owner = owner
        self._root = _open_root(root)
        self._directories = Directories(self._root, owner)
        self._marker = Marker(root.parent / MARKER)

    def close(self) -> None:
        """Give back the descriptors; safe to call twice."""
        self._marker.close()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def write(self, path: str, chunks: Iterable[bytes], *, executable: bool = False) -> FileInfo:
        """See `Workspace.write`."""
        with self.arriving(path, executable=executable) as arrival:
            for chunk in chunks:
                arrival.write(chunk)
            return arrival.commit()

    @contextmanager
    def arriving(self, path: str, *, executable: bool = False) -> Generator[Arrival]:
        """Write a file piece by piece. It is there, in one step, after `commit()`; without it nothing has changed."""
        where = writable_place(path)
        with told(path):
            parent = self._directories.made(os.path.dirname(where))
        with opened(parent):
            with told(path):
                arrival = Arrival(parent, where, executable=executable, owner=self._owner)
            try:
                yield arrival
            finally:
                arrival.close()

    def link(self, path: str, target: str) -> None:
        """See `Workspace.link`. It replaces a file or link at `path`, and does not look whether `target` exists."""
        where, leads_to = writable_place(path), place(target, field="target")
        directory, name = os.path.split(where)
        temporary = ARRIVING + secrets.token_hex(8)
        with told(path), opened(self._directories.made(directory, links=False)) as parent:
            os.symlink(os.path.relpath(leads_to, directory), temporary, dir_fd=parent)
            try:
                if self._owner is not None:
                    os.chown(temporary, *self._owner, dir_fd=parent, follow_symlinks=False)
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                os.unlink(temporary, dir_fd=parent)
                raise

    def make_directory(self, path: str) -> None:
        """See `Workspace.make_directory`."""
        where = place(path)
        if where not in WRITABLE:
            where = writable_place(path)
        with told(path):
            os.close(self._directories.made(where))

    def check_directory(self, path: str) -> None:
        """Raise `InvalidArgument` when a directory does not exist, `ForbiddenPath` when it lies outside; `.` is the
        workspace itself."""
        where = path if path == "." else place(path, field="cwd")
        with told(path, field="cwd"):
            os.close(open_beneath(self._root, where, PATH_ONLY | os.O_DIRECTORY))

    def remove(self, path: str) -> bool:
        """See `Workspace.remove`."""
        directory, name = os.path.split(writable_place(path))
        with told(path):
            try:
                parent = self._directories.open(directory)
            except (FileNotFoundError, NotADirectoryError):
                return False
            with opened(parent):
                return remove_entry(parent, name)

    def is_empty(self, path: str) -> bool:
        """Whether a directory holds nothing; false when there is none."""
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY
            with opened(open_beneath(self._root, place(path), flags, links=False)) as descriptor:
                return not os.listdir(descriptor)
        except (OSError, ForbiddenPath):
            return False

    def rename_directory(self, path: str, name: str) -> bool:
        """Give a directory another name in the same place; false when there is none, or the name is taken.

        A link is no directory: what a command has put in its place meanwhile is removed.
        """
        directory, old = os.path.split(writable_place(path))
        try:
            with opened(open_beneath(self._root, directory, os.O_RDONLY | os.O_DIRECTORY, links=False)) as parent:
                os.rename(old, name, src_dir_fd=parent, dst_dir_fd=parent)
                if stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
                    return True
                os.unlink(name, dir_fd=parent)
        except (OSError, ForbiddenPath):
            return False
        return False

    def has_directory(self, path: str) -> bool:
        """Whether there is a directory at a path, reached through no link."""
        try:
            os.close(open_beneath(self._root, path, PATH_ONLY | os.O_DIRECTORY, links=False))
        except (OSError, ForbiddenPath):
            return False
        return True

    def open(self, path: str) -> tuple[int, FileInfo]:
        """A descriptor for reading a regular file, and what is known about it. The descriptor is the caller's."""
        where = place(path)
        with told(path):
            descriptor = open_beneath(self._root, where, os.O_RDONLY | os.O_NONBLOCK)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise InvalidArgument("path", f"{path!r} is no regular file")
        return descriptor, info_of(where, status)

    def mark(self) -> int:
        """See `Workspace.mark` and `marks`."""
        return self._marker.mark()

    def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> Listing:
        """See `Workspace.list`."""
        return listing(self._root, compiled(globs), since=self._after(since), limit=limit)

    def list_small(self, globs: Sequence[str], *, since: int | None, limit: int) -> Listing | None:
        """The same where that takes less time than to find somebody who could do it meanwhile; None elsewhere."""
        return small_listing(self._root, compiled(globs), since=self._after(since), limit=limit, entries=_FEW)

    def _after(self, since: int | None) -> int | None:
        # Rather too much than too little when the clock was set back after the mark was made.
        return since if since is not None and self._marker.holds(since) else None


def _open_root(root: Path) -> int:
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
