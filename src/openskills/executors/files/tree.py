"""Files of a workspace.

Which files of a workspace match, found by reading no more directories than that takes.

A file on its way into a workspace: it appears whole, in one step, or not at all.

Moments of the file system's clock, to tell what was changed after them.

Change times are what we look at: a program can set the modification time of a file, but not its change time. They have
two faults. Most file systems give all changes within one tick of the clock (1 to 10 ms) the same one. And the clock can
be set.

A mark is the change time of a file of ours, out of the reach of scripts, that is touched until it differs from what the
first touch gave. Every earlier change has at most the first one, so it is below the mark; every later change has the
mark or more, because the clock that they are all taken from does not run backwards. Since Linux 6.13 the second touch
already differs (a change time that somebody has asked for is followed by an exact one, and no later change anywhere
gets an earlier one); on other systems this waits for the next tick.

The files of one workspace, as the host touches them: by descriptors, confined, whatever scripts do meanwhile.

All methods block and may be called from any thread.

Files of this machine that a workspace may be given: only below roots that somebody has configured. Blocking.

Names for files that came with a conversation. Pure.
"""

import errno
import os
import secrets
import stat
import time
import unicodedata
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded
from openskills.executors.files.beneath import (
    PATH_ONLY,
    DirectoryCursor,
    DirectoryOpener,
    auto_close,
    open_beneath,
    remove_entry,
    translate_os_errors,
)
from openskills.executors.files.globs import GlobPosition, GlobSet, compile_globs
from openskills.executors.spec import (
    LINKS,
    SKILLS,
    WRITABLE,
    FileInfo,
    WorkspaceListing,
    check_writable_path,
    normalize_path,
)
from openskills.filesystem import TEMPORARY_PREFIX
from openskills.paths import MAX_COMPONENT, MAX_PATH, to_printable

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


def file_info_from_stat(path: str, status: os.stat_result) -> FileInfo:
    """What is known about a file."""
    return FileInfo(
        path, status.st_size, (status.st_ctime_ns, status.st_ino, status.st_size), bool(status.st_mode & 0o100)
    )


def list_files(directory: int, globs: GlobSet, *, since: int | None, limit: int) -> WorkspaceListing:
    """The regular files below the directory of this descriptor that match, changed at `since` or later.

    Nothing is opened but directories, and no link is followed. Ends early, and says so, at `limit` files and after a
    million entries. Without those two the answer only depends on what is there.
    """
    return _FileWalk(directory, globs, since, limit, MAX_ENTRIES).run()


def list_files_if_few(
    directory: int, globs: GlobSet, *, since: int | None, limit: int, entries: int
) -> WorkspaceListing | None:
    """The same, where it can be told by looking at no more than `entries` entries; None where it takes more."""
    walk = _FileWalk(directory, globs, since, limit, entries)
    found = walk.run()
    return found if walk.entries <= entries else None


@dataclass(slots=True)
class _PendingDirectory:
    """A directory that is being read: its path with a slash, and the directories in it that are still to be read."""

    prefix: str
    pending: list[tuple[str, GlobPosition]]


class _FileWalk:
    def __init__(self, directory: int, globs: GlobSet, since: int | None, limit: int, most: int) -> None:
        self._directory = directory
        self._globs = globs
        self._since = since
        self._limit = limit
        self._most = most
        self.entries = 0
        self._found: list[FileInfo] = []
        self._skipped: list[str] = []
        self._complete = True

    def run(self) -> WorkspaceListing:
        with DirectoryCursor(self._directory) as descent:
            levels = [self._read(descent.descriptor, "", self._globs.start)]
            while levels and not self._is_full():
                self._advance(descent, levels)
        self._found.sort(key=lambda info: info.path)
        return WorkspaceListing(tuple(self._found), tuple(self._skipped), self._complete)

    def _advance(self, descent: DirectoryCursor, levels: list[_PendingDirectory]) -> None:
        """Read the next directory, or go up when there is none here."""
        level = levels[-1]
        if level.pending:
            name, position = level.pending.pop()
            if self._enter(descent, level.prefix, name):
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

    def _enter(self, descent: DirectoryCursor, prefix: str, name: str) -> bool:
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

    def _read(self, descriptor: int, prefix: str, position: GlobPosition) -> _PendingDirectory:
        """Take the files of one directory, in the order of their names, and note its directories."""
        level = _PendingDirectory(prefix, [])
        for name, mode in sorted(self._scan_names(descriptor, position)):
            if stat.S_ISDIR(mode):
                below = position.descend(name)
                if below:
                    level.pending.append((name, below))
            elif not stat.S_ISREG(mode):
                self._skip_special(prefix, name, mode, position)
            elif position.matches(name) and len(self._found) <= self._limit:
                self._add_file(descriptor, prefix, name)
        level.pending.reverse()
        return level

    def _scan_names(self, descriptor: int, position: GlobPosition) -> Iterator[tuple[str, int]]:
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
                yield entry.name, _read_entry_type(entry)

    def _add_file(self, descriptor: int, prefix: str, name: str) -> None:
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
            self._found.append(file_info_from_stat(path, status))

    def _skip_special(self, prefix: str, name: str, mode: int, position: GlobPosition) -> None:
        ours = name in LINKS and prefix.startswith(f"{SKILLS}/") and prefix.count("/") == 2
        if not ours and (position.matches(name) or (stat.S_ISLNK(mode) and position.descend(name))):
            self._skip(prefix + name, f"is {_KINDS.get(stat.S_IFMT(mode), 'no file')}")

    def _skip(self, path: str, why: str) -> None:
        if len(self._skipped) < MAX_SKIPPED:
            self._skipped.append(f"{to_printable(path)} {why}")


def _read_entry_type(entry: "os.DirEntry[str]") -> int:
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


_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class AtomicFileWriter:
    """Pieces are written to a file beside the place; `commit` gives it its name. `Tree.arriving` makes one."""

    def __init__(self, parent: int, path: str, *, executable: bool, owner: tuple[int, int] | None) -> None:
        """`parent` is a descriptor of the directory, open for as long as this is used; `path` is in the workspace."""
        self._parent = parent
        self._path = path
        self._temporary: str | None = TEMPORARY_PREFIX + secrets.token_hex(8)
        self._descriptor = os.open(self._temporary, _FLAGS, 0o600, dir_fd=parent)
        # By what it is opened with, so whatever the umask says.
        os.fchmod(self._descriptor, 0o700 if executable else 0o600)
        if owner is not None:
            os.fchown(self._descriptor, *owner)

    def write(self, piece: bytes) -> None:
        """Add a piece; raises `LimitExceeded` when the disk is full."""
        view = memoryview(piece)
        with translate_os_errors(self._path):
            while view:
                view = view[os.write(self._descriptor, view) :]

    def commit(self) -> FileInfo:
        """Put it in its place. A file or link there is replaced; a link is not followed."""
        assert self._temporary is not None  # noqa: S101  nobody commits twice
        with translate_os_errors(self._path):
            name = os.path.basename(self._path)
            os.rename(self._temporary, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
            self._temporary = None
        return file_info_from_stat(self._path, os.fstat(self._descriptor))

    def close(self) -> None:
        """Give back the descriptor; what was not committed is removed."""
        os.close(self._descriptor)
        if self._temporary is not None:
            try:
                os.unlink(self._temporary, dir_fd=self._parent)
            except FileNotFoundError:
                # A script can remove whatever it sees.
                self._temporary = None


_MAX_MARK_WAIT = 0.05
_PAUSE = 0.0005


class ChangeClock:
    """Makes marks. The file is made where it is missing; the directory is one that scripts cannot reach."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)

    def mark(self) -> int:
        """A moment: what was changed before has an earlier change time, what is changed from now on this or a later.

        Where change times do not move on within 50 ms (some file systems count seconds), what was changed in the same
        second before counts as changed after it.
        """
        first = self._touch()
        deadline = time.monotonic() + _MAX_MARK_WAIT
        while (stamp := self._touch()) == first:
            if time.monotonic() > deadline:
                return first
            time.sleep(_PAUSE)
        return stamp

    def has_reached(self, mark: int) -> bool:
        """Whether the clock is at the mark or after it; it is not when somebody has set it back."""
        return self._touch() >= mark

    def close(self) -> None:
        """Give back the descriptor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _touch(self) -> int:
        os.utime(self._descriptor)
        return os.fstat(self._descriptor).st_ctime_ns


MARKER = "marker"
"""The name of the file, beside the tree, that marks are made with."""

_FEW_ENTRIES = 64


class WorkspaceTree:
    """One workspace directory. `owner` is who gets what the host puts there: the user of its commands, if not us."""

    def __init__(self, root: Path, *, owner: tuple[int, int] | None = None) -> None:
        self._owner = owner
        self._root = _open_root(root)
        self._directories = DirectoryOpener(self._root, owner)
        self._marker = ChangeClock(root.parent / MARKER)

    def close(self) -> None:
        """Give back the descriptors; safe to call twice."""
        self._marker.close()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def write(self, path: str, chunks: Iterable[bytes], *, executable: bool = False) -> FileInfo:
        """See `Workspace.write`."""
        with self.open_writer(path, executable=executable) as arrival:
            for chunk in chunks:
                arrival.write(chunk)
            return arrival.commit()

    @contextmanager
    def open_writer(self, path: str, *, executable: bool = False) -> Generator[AtomicFileWriter]:
        """Write a file piece by piece. It is there, in one step, after `commit()`; without it nothing has changed."""
        where = check_writable_path(path)
        with translate_os_errors(path):
            parent = self._directories.create(os.path.dirname(where))
        with auto_close(parent):
            with translate_os_errors(path):
                arrival = AtomicFileWriter(parent, where, executable=executable, owner=self._owner)
            try:
                yield arrival
            finally:
                arrival.close()

    def link(self, path: str, target: str) -> None:
        """See `Workspace.link`. It replaces a file or link at `path`, and does not look whether `target` exists."""
        where, leads_to = check_writable_path(path), normalize_path(target, field="target")
        directory, name = os.path.split(where)
        temporary = TEMPORARY_PREFIX + secrets.token_hex(8)
        with translate_os_errors(path), auto_close(self._directories.create(directory, links=False)) as parent:
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
        where = normalize_path(path)
        if where not in WRITABLE:
            where = check_writable_path(path)
        with translate_os_errors(path):
            os.close(self._directories.create(where))

    def check_directory(self, path: str) -> None:
        """Raise `InvalidArgument` when a directory does not exist, `ForbiddenPath` when it lies outside; `.` is the
        workspace itself."""
        where = path if path == "." else normalize_path(path, field="cwd")
        with translate_os_errors(path, field="cwd"):
            os.close(open_beneath(self._root, where, PATH_ONLY | os.O_DIRECTORY))

    def remove(self, path: str) -> bool:
        """See `Workspace.remove`."""
        directory, name = os.path.split(check_writable_path(path))
        with translate_os_errors(path):
            try:
                parent = self._directories.open(directory)
            except (FileNotFoundError, NotADirectoryError):
                return False
            with auto_close(parent):
                return remove_entry(parent, name)

    def is_empty(self, path: str) -> bool:
        """Whether a directory holds nothing; false when there is none."""
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY
            with auto_close(open_beneath(self._root, normalize_path(path), flags, links=False)) as descriptor:
                return not os.listdir(descriptor)
        except (OSError, ForbiddenPath):
            return False

    def rename_directory(self, path: str, name: str) -> bool:
        """Give a directory another name in the same place; false when there is none, or the name is taken.

        A link is no directory: what a command has put in its place meanwhile is removed.
        """
        directory, old = os.path.split(check_writable_path(path))
        try:
            with auto_close(open_beneath(self._root, directory, os.O_RDONLY | os.O_DIRECTORY, links=False)) as parent:
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
        where = normalize_path(path)
        with translate_os_errors(path):
            descriptor = open_beneath(self._root, where, os.O_RDONLY | os.O_NONBLOCK)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise InvalidArgument("path", f"{path!r} is no regular file")
        return descriptor, file_info_from_stat(where, status)

    def mark(self) -> int:
        """See `Workspace.mark` and `marks`."""
        return self._marker.mark()

    def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> WorkspaceListing:
        """See `Workspace.list`."""
        return list_files(self._root, compile_globs(globs), since=self._check_mark(since), limit=limit)

    def list_small(self, globs: Sequence[str], *, since: int | None, limit: int) -> WorkspaceListing | None:
        """The same where that takes less time than to find somebody who could do it meanwhile; None elsewhere."""
        return list_files_if_few(
            self._root, compile_globs(globs), since=self._check_mark(since), limit=limit, entries=_FEW_ENTRIES
        )

    def _check_mark(self, since: int | None) -> int | None:
        # Rather too much than too little when the clock was set back after the mark was made.
        return since if since is not None and self._marker.has_reached(since) else None


def _open_root(root: Path) -> int:
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


MAX_FILES = 10_000

_FILE = os.O_RDONLY | os.O_NONBLOCK


def find_host_root(roots: Sequence[Path], path: PurePosixPath) -> tuple[Path, str]:
    """The root that a path is below, and the rest of it. Raises `ForbiddenPath` when there is none."""
    if not roots:
        raise ForbiddenPath(
            f"host://{path} is not available: no directories of this machine are shared;"
            " name some with OPENSKILL_HOST_ROOTS or `host_roots`"
        )
    candidates = {
        PurePosixPath(name): root for root in roots for name in (os.path.realpath(root), os.path.abspath(root))
    }
    fitting = [name for name in candidates if path.is_relative_to(name)]
    if not fitting:
        shared = ", ".join(map(str, roots))
        raise ForbiddenPath(f"host://{path} is in none of the directories that are shared (host_roots): {shared}")
    nearest = max(fitting, key=lambda name: len(name.parts))
    return candidates[nearest], str(path.relative_to(nearest))


class HostFiles:
    """What lies at one path below a root: a file, or the files of a directory. Close it."""

    def __init__(self, root: Path, rest: str) -> None:
        """Raises `InvalidArgument` when there is nothing, `ForbiddenPath` when a link leads out of the root,
        `LimitExceeded` for a directory of more than 10,000 files."""
        self._shown = str(root / rest)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with translate_os_errors(self._shown, field="inputs.from"), auto_close(os.open(root, flags)) as directory:
            self._descriptor = open_beneath(directory, rest, _FILE)
        self.is_directory = stat.S_ISDIR(os.fstat(self._descriptor).st_mode)
        self.names: tuple[str, ...] = ("",)
        """The paths of the files below it; one empty path for a file."""
        self.skipped: tuple[str, ...] = ()
        """What is no file and is left out."""
        try:
            self._scan()
        except BaseException:
            self.close()
            raise

    def open(self, name: str) -> tuple[int, bool]:
        """A descriptor for reading one of the files, and whether it is a program. The descriptor is the caller's."""
        if not name:
            descriptor = os.dup(self._descriptor)
        else:
            with translate_os_errors(name, field="inputs.from"):
                descriptor = open_beneath(self._descriptor, name, _FILE, links=False)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise InvalidArgument("inputs.from", f"{(name or self._shown)!r} is no regular file")
        return descriptor, bool(status.st_mode & 0o100)

    def close(self) -> None:
        """Give back the descriptor."""
        os.close(self._descriptor)

    def _scan(self) -> None:
        if not self.is_directory:
            descriptor, _ = self.open("")
            os.close(descriptor)
            return
        found = list_files(self._descriptor, compile_globs(["**"]), since=None, limit=MAX_FILES)
        if not found.complete:
            raise LimitExceeded(f"{self._shown!r} has more than {MAX_FILES:,} files; name a smaller directory")
        self.names = tuple(info.path for info in found.files)
        self.skipped = found.skipped


_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_MAX_SUFFIX = 32
_SPECIAL_PREFIXES = ("-", "~")


def choose_upload_name(name: str, taken: Collection[str] = ()) -> str:
    """A file name for something that somebody else has named, different from all that are taken in any case.

    Only the last part of a path is kept, of backslashes, too. Control and invisible characters become `_`, a name of
    more than 255 bytes loses its middle, and what is no name becomes `upload_1`, `upload_2`, … What a command would
    take for an option or a home directory (`-rf`, `~root`) begins with `_`. A name that is taken gets `_2`, `_3`, …
    before its ending.
    """
    used = {other.casefold() for other in taken}
    shown = "".join("_" if unicodedata.category(char) in _INVISIBLE_CATEGORIES else char for char in name)
    base = shown.replace("\\", "/").rpartition("/")[2].strip()
    if base.startswith(TEMPORARY_PREFIX):
        base = base.removeprefix(".")
    if base.startswith(_SPECIAL_PREFIXES):
        base = f"_{base}"
    if not base.strip("."):
        return next(found for number in _count_from(1) if (found := f"upload_{number}") not in used)
    stem, ending = _split_suffix(base)
    if (found := _fit_name(stem, "", ending)).casefold() not in used:
        return found
    return next(
        found for number in _count_from(2) if (found := _fit_name(stem, f"_{number}", ending)).casefold() not in used
    )


def _count_from(first: int) -> range:
    return range(first, first + 1_000_000)


def _split_suffix(base: str) -> tuple[str, str]:
    stem, dot, ending = base.rpartition(".")
    if not dot or not stem.strip(".") or len(os.fsencode(ending)) > _MAX_SUFFIX:
        return base, ""
    return stem, f".{ending}"


def _fit_name(stem: str, number: str, ending: str) -> str:
    room = MAX_COMPONENT - len(os.fsencode(number + ending))
    return os.fsencode(stem)[:room].decode("utf-8", "ignore") + number + ending
