"""Files of a workspace on disk: listing, atomic writes, change marks, host files and upload names.

Everything works on descriptors below the workspace directory, whatever commands do at the same time. All functions
block and may be called from any thread.
"""

import errno
import os
import secrets
import stat
import time
import unicodedata
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path, PurePosixPath

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded
from openskills.executors.files.descriptors import (
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
    ENVIRONMENTS,
    LINKS,
    SKILLS,
    WRITABLE,
    FileInfo,
    WorkspaceListing,
    check_writable_path,
    normalize_path,
)
from openskills.filesystem import TEMPORARY_PREFIX, write_all
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
    """Build a `FileInfo` from the status of a file."""
    stamp = (status.st_ctime_ns, status.st_ino, status.st_size)
    return FileInfo(path, status.st_size, stamp, bool(status.st_mode & 0o100))


def list_files(directory: int, globs: GlobSet, *, since: int | None, limit: int) -> WorkspaceListing:
    """The regular files below a directory that match and were changed at `since` or later, sorted by path.

    Only directories are opened, and no link is followed. The listing is incomplete, and says so, after `limit` files or
    a million entries.
    """
    return _FileWalk(directory, globs, since, limit, MAX_ENTRIES).run()


def list_files_if_few(
    directory: int, globs: GlobSet, *, since: int | None, limit: int, entries: int
) -> WorkspaceListing | None:
    """Like `list_files`, but None if it takes more than `entries` directory entries."""
    walk = _FileWalk(directory, globs, since, limit, entries)
    found = walk.run()
    return found if walk.entries <= entries else None


@dataclass(slots=True)
class _PendingDirectory:
    """A directory in the walk: its path with a slash, and the subdirectories that are still to be read."""

    prefix: str
    pending: list[tuple[str, GlobPosition]]


class _FileWalk:
    def __init__(self, directory: int, globs: GlobSet, since: int | None, limit: int, max_entries: int) -> None:
        self._directory = directory
        self._globs = globs
        self._since = since
        self._limit = limit
        self._max_entries = max_entries
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
                # The directory was moved; what is left above cannot be reached from here.
                levels.clear()
                self._complete = False

    def _is_full(self) -> bool:
        if len(self._found) > self._limit:
            self._found.pop()
        elif self.entries <= self._max_entries:
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
        """Add the files of one directory, sorted by name, and note its subdirectories."""
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
                if self.entries > self._max_entries:
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
            self._skip(prefix + name, f"is {_KINDS.get(stat.S_IFMT(mode), 'not a regular file')}")

    def _skip(self, path: str, why: str) -> None:
        if len(self._skipped) < MAX_SKIPPED:
            self._skipped.append(f"{to_printable(path)} {why}")


def _read_entry_type(entry: "os.DirEntry[str]") -> int:
    """The file type of an entry, mostly without a system call."""
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
    """Writes a temporary file beside the target; `commit` renames it. See `WorkspaceTree.open_writer`."""

    def __init__(self, parent: int, path: str, *, executable: bool, owner: tuple[int, int] | None) -> None:
        """`parent` is a descriptor of the directory and must stay open; `path` is relative to the workspace."""
        self._parent = parent
        self._path = path
        self._temporary: str | None = TEMPORARY_PREFIX + secrets.token_hex(8)
        self._descriptor = os.open(self._temporary, _FLAGS, 0o600, dir_fd=parent)
        os.fchmod(self._descriptor, 0o700 if executable else 0o600)  # regardless of the umask
        if owner is not None:
            os.fchown(self._descriptor, *owner)

    def write(self, piece: bytes) -> None:
        """Append bytes; raises `LimitExceeded` if the disk is full."""
        with translate_os_errors(self._path):
            write_all(self._descriptor, piece)

    def commit(self) -> FileInfo:
        """Rename the file to its target. A file or link there is replaced; a link is not followed."""
        assert self._temporary is not None  # noqa: S101  committed twice
        with translate_os_errors(self._path):
            name = os.path.basename(self._path)
            os.rename(self._temporary, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
            self._temporary = None
        return file_info_from_stat(self._path, os.fstat(self._descriptor))

    def close(self) -> None:
        """Close the file; without `commit` it is removed."""
        os.close(self._descriptor)
        if self._temporary is not None:
            # A script can remove any file that it sees.
            with suppress(FileNotFoundError):
                os.unlink(self._temporary, dir_fd=self._parent)


_MAX_MARK_WAIT = 0.05
_PAUSE = 0.0005


class ChangeClock:
    """Makes marks: moments of the file system's clock that tell which files changed after them.

    It compares change times, which programs cannot set. Most file systems give all changes within one clock tick (1 to
    10 ms) the same time, so a mark is made by touching a file of ours until its change time moves on: every earlier
    change is below the mark, every later one at or above it. Since Linux 6.13 the second touch already differs. The
    file is created if missing, in a directory that scripts cannot reach.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def mark(self) -> int:
        """The current moment: earlier changes have a lower change time, later ones this or a higher one.

        If change times do not move on within 50 ms (some file systems count seconds), earlier changes in the same
        second count as later.
        """
        first = self._touch()
        deadline = time.monotonic() + _MAX_MARK_WAIT
        while (stamp := self._touch()) == first:
            if time.monotonic() > deadline:
                return first
            time.sleep(_PAUSE)
        return stamp

    def has_reached(self, mark: int) -> bool:
        """Whether the clock is at or after the mark; false if it was set back."""
        return self._touch() >= mark

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _touch(self) -> int:
        os.utime(self._descriptor)
        return os.fstat(self._descriptor).st_ctime_ns


MARKER = "marker"
"""The name of the file beside the tree that `ChangeClock` touches."""

_FEW_ENTRIES = 64


class WorkspaceTree:
    """One workspace directory. Files that the host writes belong to `owner`: uid and gid of its commands, if not us."""

    def __init__(self, root: Path, *, owner: tuple[int, int] | None = None) -> None:
        self._owner = owner
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._directories = DirectoryOpener(self._root, owner)
        self._marker = ChangeClock(root.parent / MARKER)

    def close(self) -> None:
        """Close the descriptors; safe to call twice."""
        self._marker.close()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def write(self, path: str, chunks: Iterable[bytes], *, executable: bool = False) -> FileInfo:
        with self.open_writer(path, executable=executable) as arrival:
            for chunk in chunks:
                arrival.write(chunk)
            return arrival.commit()

    @contextmanager
    def open_writer(self, path: str, *, executable: bool = False) -> Generator[AtomicFileWriter]:
        """Write a file in pieces. It appears atomically with `commit()`; without it nothing changes."""
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
        """See `Workspace.link`. Replaces a file or link at `path`; `target` need not exist."""
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

    def link_modules(self, skill: str, target: str) -> None:
        """Link `node_modules` of a staged skill to this directory of the machine, unless it has its own."""
        with translate_os_errors(skill), auto_close(self._directories.open(f"{SKILLS}/{skill}")) as parent:
            try:
                found = os.readlink("node_modules", dir_fd=parent)
                ours = f"{target.partition(f'/{ENVIRONMENTS}/')[0]}/{ENVIRONMENTS}/"
                if found == target or not found.startswith(ours):
                    return
                os.unlink("node_modules", dir_fd=parent)
            except FileNotFoundError:
                pass
            except OSError:
                # A directory or file of the skill.
                return
            os.symlink(target, "node_modules", dir_fd=parent)

    def make_directory(self, path: str) -> None:
        where = normalize_path(path)
        if where not in WRITABLE:
            where = check_writable_path(path)
        with translate_os_errors(path):
            os.close(self._directories.create(where))

    def check_directory(self, path: str) -> None:
        """Raise `InvalidArgument` if a directory does not exist, `ForbiddenPath` if it is outside of the workspace."""
        where = path if path == "." else normalize_path(path, field="cwd")
        with translate_os_errors(path, field="cwd"):
            os.close(open_beneath(self._root, where, PATH_ONLY | os.O_DIRECTORY))

    def remove(self, path: str) -> bool:
        directory, name = os.path.split(check_writable_path(path))
        with translate_os_errors(path):
            try:
                parent = self._directories.open(directory)
            except (FileNotFoundError, NotADirectoryError):
                return False
            with auto_close(parent):
                return remove_entry(parent, name)

    def is_empty(self, path: str) -> bool:
        """Whether a directory is empty; false if it does not exist."""
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY
            with auto_close(open_beneath(self._root, normalize_path(path), flags, links=False)) as descriptor:
                return not os.listdir(descriptor)
        except (OSError, ForbiddenPath):
            return False

    def rename_directory(self, path: str, name: str) -> bool:
        """Rename a directory within its parent; false if it does not exist or the name is taken.

        If a command replaced the directory with a link or file, that is removed.
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
        """Whether a directory exists at a path without links."""
        try:
            os.close(open_beneath(self._root, path, PATH_ONLY | os.O_DIRECTORY, links=False))
        except (OSError, ForbiddenPath):
            return False
        return True

    def open(self, path: str) -> tuple[int, FileInfo]:
        """Open a regular file for reading; the caller closes the descriptor."""
        where = normalize_path(path)
        with translate_os_errors(path):
            descriptor = open_beneath(self._root, where, os.O_RDONLY | os.O_NONBLOCK)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise InvalidArgument("path", f"{path!r} is not a regular file")
        return descriptor, file_info_from_stat(where, status)

    def mark(self) -> int:
        """See `Workspace.mark` and `ChangeClock`."""
        return self._marker.mark()

    def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> WorkspaceListing:
        return list_files(self._root, compile_globs(globs), since=self._check_mark(since), limit=limit)

    def list_small(self, globs: Sequence[str], *, since: int | None, limit: int) -> WorkspaceListing | None:
        """Like `list`, but None if there are many entries: then it is better done in a thread."""
        return list_files_if_few(
            self._root, compile_globs(globs), since=self._check_mark(since), limit=limit, entries=_FEW_ENTRIES
        )

    def _check_mark(self, since: int | None) -> int | None:
        # If the clock was set back after the mark, list too much rather than too little.
        return since if since is not None and self._marker.has_reached(since) else None


MAX_FILES = 10_000

_FILE = os.O_RDONLY | os.O_NONBLOCK


def find_host_root(roots: Sequence[Path], path: PurePosixPath) -> tuple[Path, str]:
    """Split a host path into its shared root and the rest. Raises `ForbiddenPath` if no root contains it."""
    if not roots:
        raise ForbiddenPath(
            f"host://{path} is not available: no host directories are shared; set OPENSKILL_HOST_ROOTS or `host_roots`"
        )
    candidates = {
        PurePosixPath(name): root for root in roots for name in (os.path.realpath(root), os.path.abspath(root))
    }
    fitting = [name for name in candidates if path.is_relative_to(name)]
    if not fitting:
        shared = ", ".join(map(str, roots))
        raise ForbiddenPath(f"host://{path} is not below a shared directory (host_roots): {shared}")
    nearest = max(fitting, key=lambda name: len(name.parts))
    return candidates[nearest], str(path.relative_to(nearest))


class HostFiles:
    """A file below a shared root, or the files of a directory there. Close it."""

    def __init__(self, root: Path, rest: str) -> None:
        """Raises `InvalidArgument` if it does not exist, `ForbiddenPath` if a link leads out of the root,
        `LimitExceeded` for a directory of more than 10,000 files."""
        self._shown = str(root / rest)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with translate_os_errors(self._shown, field="inputs.from"), auto_close(os.open(root, flags)) as directory:
            self._descriptor = open_beneath(directory, rest, _FILE)
        self.is_directory = stat.S_ISDIR(os.fstat(self._descriptor).st_mode)
        self.names: tuple[str, ...] = ("",)
        """The paths of the files below it; one empty path for a file."""
        self.skipped: tuple[str, ...] = ()
        """Descriptions of entries that are not regular files."""
        try:
            self._scan()
        except BaseException:
            self.close()
            raise

    def open(self, name: str) -> tuple[int, bool]:
        """Open one of the files for reading; the caller closes the descriptor. The flag is its executable bit."""
        if not name:
            descriptor = os.dup(self._descriptor)
        else:
            with translate_os_errors(name, field="inputs.from"):
                descriptor = open_beneath(self._descriptor, name, _FILE, links=False)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise InvalidArgument("inputs.from", f"{(name or self._shown)!r} is not a regular file")
        return descriptor, bool(status.st_mode & 0o100)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)

    def _scan(self) -> None:
        if not self.is_directory:
            os.close(self.open("")[0])
            return
        found = list_files(self._descriptor, compile_globs(["**"]), since=None, limit=MAX_FILES)
        if not found.complete:
            raise LimitExceeded(f"{self._shown!r} has more than {MAX_FILES:,} files; use a smaller directory")
        self.names = tuple(info.path for info in found.files)
        self.skipped = found.skipped


_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_MAX_SUFFIX = 32
_SPECIAL_PREFIXES = ("-", "~")


def choose_upload_name(name: str, taken: Collection[str] = ()) -> str:
    """A safe file name for an upload, different from all `taken` names regardless of case.

    Only the last part of a path is used, also with backslashes. Control and invisible characters become `_`, names are
    cut to 255 bytes before their suffix, and empty names become `upload_1`, `upload_2`, … Names that look like an
    option or a home directory (`-rf`, `~root`) get a leading `_`. Taken names get `_2`, `_3`, … before the suffix.
    """
    used = {other.casefold() for other in taken}
    shown = "".join("_" if unicodedata.category(char) in _INVISIBLE_CATEGORIES else char for char in name)
    base = shown.replace("\\", "/").rpartition("/")[2].strip()
    if base.startswith(TEMPORARY_PREFIX):
        base = base.removeprefix(".")
    if base.startswith(_SPECIAL_PREFIXES):
        base = f"_{base}"
    if not base.strip("."):
        return next(found for number in count(1) if (found := f"upload_{number}") not in used)
    stem, dot, suffix = base.rpartition(".")
    if not dot or not stem.strip(".") or len(os.fsencode(suffix)) > _MAX_SUFFIX:
        stem, dot, suffix = base, "", ""
    for number in count(1):
        end = f"_{number}{dot}{suffix}" if number > 1 else dot + suffix
        room = MAX_COMPONENT - len(os.fsencode(end))
        found = os.fsencode(stem)[:room].decode("utf-8", "ignore") + end
        if found.casefold() not in used:
            return found
    raise AssertionError  # unreachable: count() never ends
