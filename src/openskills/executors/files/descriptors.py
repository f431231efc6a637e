"""Confined file operations below a directory: open, create, walk and remove by descriptors. Blocking.

Commands may rename, link or chmod anything in the tree at the same time. Nothing here leaves the directory, and at any
depth only a few descriptors are open. Directories that their owner made inaccessible are made accessible again.
"""

import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded

PATH_ONLY: int = getattr(os, "O_PATH", os.O_RDONLY)
"""`O_PATH` (a descriptor without read access), where the system has it."""

_OPENAT2 = 437  # the same on every architecture that Python runs on
_AT_FDCWD = -100
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
_TRIES = 1000


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(directory: int, path: str, flags: int, *, links: bool = True) -> int:
    """Open `path` relative to the descriptor `directory`, guaranteed to lie below it despite concurrent renames.

    Links are followed if they stay below; with `links=False`, or without `openat2`, never. Raises `ForbiddenPath` for
    a path that leads out or through a link that is not followed, `InvalidArgument` for a NUL byte, `OSError`
    otherwise. Pass `O_NONBLOCK` if it may be a FIFO.
    """
    if "\0" in path:
        raise InvalidArgument("path", f"{path!r} contains a NUL byte")
    if has_openat2():
        return open_with_openat2(directory, path, flags, links=links)
    return open_stepwise(directory, path, flags)


@contextmanager
def auto_close(descriptor: int) -> Generator[int]:
    """Close a descriptor at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def change_owner(stdio: Iterable[int], uid: int | None) -> None:
    """Give the pipes or the terminal of a command to its user, if that is not ours.

    Commands reopen them by name (`/dev/stdout`), which checks the owner. Devices such as `/dev/null` are shared.
    """
    for descriptor in stdio if uid is not None else ():
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor):
            os.fchown(descriptor, uid or -1, -1)


def open_with_openat2(directory: int, path: str, flags: int, *, links: bool = True) -> int:
    """`open_beneath` with the system call `openat2`."""
    resolve = _BENEATH | _NO_MAGIC_LINKS | (0 if links else _NO_LINKS)
    how = _OpenHow(_complete_flags(flags), 0, resolve)
    number = 0
    for _ in range(_TRIES):
        descriptor, number = _call_openat2(directory, os.fsencode(path), how)
        if descriptor >= 0:
            return descriptor
        # EAGAIN: something was renamed at that moment, so the kernel could not verify that `..` stayed below.
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    if number in (errno.EXDEV, errno.ELOOP):
        raise _path_error(path, "leads out of its directory" if number == errno.EXDEV else "goes through a link")
    raise OSError(number, os.strerror(number), path)


def open_stepwise(directory: int, path: str, flags: int) -> int:
    """`open_beneath` one path component at a time; no link is followed."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        raise _path_error(path, "leads out of its directory")
    parts = [part for part in parts if part not in ("", ".")] or ["."]
    last = parts.pop()
    current = os.open(".", _complete_flags(PATH_ONLY | os.O_DIRECTORY), dir_fd=directory)
    try:
        for part in parts:
            below = _open_step(current, part, PATH_ONLY | os.O_DIRECTORY, path)
            os.close(current)
            current = below
        return _open_step(current, last, flags, path)
    finally:
        os.close(current)


@cache
def has_openat2() -> bool:
    """Whether `openat2` is available; some containers filter unknown system calls."""
    if not hasattr(os, "O_PATH"):
        return False
    descriptor, _ = _call_openat2(_AT_FDCWD, b"/", _OpenHow(PATH_ONLY | os.O_CLOEXEC, 0, 0))
    if descriptor < 0:
        return False
    os.close(descriptor)
    return True


def _call_openat2(directory: int, path: bytes, how: _OpenHow) -> tuple[int, int]:
    descriptor = _load_libc().syscall(
        ctypes.c_long(_OPENAT2),
        ctypes.c_int(directory),
        ctypes.c_char_p(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    return descriptor, ctypes.get_errno()


@cache
def _load_libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def _complete_flags(flags: int) -> int:
    # A terminal that a script names must not become our controlling terminal. openat2 rejects O_NOCTTY with O_PATH.
    return flags | os.O_CLOEXEC | (0 if flags & PATH_ONLY else os.O_NOCTTY)


def _open_step(current: int, part: str, flags: int, path: str) -> int:
    try:
        return os.open(part, _complete_flags(flags | os.O_NOFOLLOW), dir_fd=current)
    except OSError as error:
        # With O_DIRECTORY, opening a link fails with ENOTDIR.
        if error.errno in (errno.ELOOP, errno.EMLINK) or (error.errno == errno.ENOTDIR and _is_link(current, part)):
            raise _path_error(path, "goes through a link") from error
        raise OSError(error.errno, error.strerror, path) from error


def _is_link(current: int, part: str) -> bool:
    try:
        os.readlink(part, dir_fd=current)
    except OSError:
        return False
    return True


def _path_error(path: str, why: str) -> ForbiddenPath:
    return ForbiddenPath(f"path: {path!r} {why}", why=why)


_MAX_OPEN_LEVELS = 32
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _ParentDirectory:
    """A parent on the path of a cursor: an open descriptor, or the identity of a closed one (-1)."""

    descriptor: int
    identity: tuple[int, int] = (0, 0)


class DirectoryCursor:
    """A position in a directory tree that others may change at the same time. Close it, or use `with`."""

    def __init__(self, directory: int) -> None:
        """Start in the directory of this descriptor, which the caller still has to close."""
        self.descriptor = os.dup(directory)
        self._above: list[_ParentDirectory] = []

    @property
    def depth(self) -> int:
        """The number of levels below the first directory."""
        return len(self._above)

    def enter(self, name: str) -> None:
        """Go down into a directory. Raises `OSError`, without moving, if `name` is not a directory."""
        self.follow(os.open(name, _DIRECTORY, dir_fd=self.descriptor))

    def follow(self, below: int) -> None:
        """Go down into a directory that is open already; the cursor closes the descriptor."""
        # Parents near the top stay open; further down, the identity of the parent is checked when going up.
        if len(self._above) < _MAX_OPEN_LEVELS:
            self._above.append(_ParentDirectory(self.descriptor))
        else:
            self._above.append(_ParentDirectory(-1, _read_identity(self.descriptor)))
            os.close(self.descriptor)
        self.descriptor = below

    def leave(self) -> None:
        """Go up to the parent. Raises `OSError` (ESTALE) if the current directory was moved to another parent."""
        above = self._above[-1]
        descriptor = above.descriptor
        if descriptor < 0:
            descriptor = os.open("..", _DIRECTORY, dir_fd=self.descriptor)
            if _read_identity(descriptor) != above.identity:
                os.close(descriptor)
                raise OSError(errno.ESTALE, "a directory was moved while it was read")
        self._above.pop()
        os.close(self.descriptor)
        self.descriptor = descriptor

    def leave_moved(self) -> int:
        """After `leave` has failed, go up to the nearest parent that is open; returns how many were skipped."""
        skipped = 0
        while self._above[-1].descriptor < 0:
            self._above.pop()
            skipped += 1
        self.leave()
        return skipped

    def close(self) -> None:
        """Close every descriptor."""
        for descriptor in (self.descriptor, *(above.descriptor for above in self._above)):
            if descriptor >= 0:
                os.close(descriptor)
        self._above.clear()
        self.descriptor = -1

    def __enter__(self) -> "DirectoryCursor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read_identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def open_with_full_access(name: str, parent: int | None) -> int:
    """Open a directory and give its owner all permissions, permanently. Raises `NotADirectoryError` for a link, too."""
    try:
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    except PermissionError:
        # By descriptor: the name could be replaced by a link between two calls, and chmod follows links.
        with auto_close(os.open(name, PATH_ONLY | _DIRECTORY, dir_fd=parent)) as place:
            os.chmod(f"/proc/self/fd/{place}", 0o700)
            return os.open(".", _DIRECTORY, dir_fd=place)
    if os.fstat(descriptor).st_mode & 0o700 != 0o700:
        os.fchmod(descriptor, 0o700)
    return descriptor


_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY


class DirectoryOpener:
    """Opens and creates `work/…`, `out/…`, `runs/…`; new directories belong to `owner` and have mode 0700.

    Links are only followed within one of the three, so none leads from there to a skill.
    """

    def __init__(self, root: int, owner: tuple[int, int] | None) -> None:
        self._root = root
        self._owner = owner

    def open(self, where: str, *, links: bool = True) -> int:
        """Open a directory; raises `FileNotFoundError`."""
        top, _, rest = where.partition("/")
        base = open_beneath(self._root, top, _DIRECTORY_FLAGS, links=False)
        if not rest:
            return base
        with auto_close(base):
            return open_beneath(base, rest, _DIRECTORY_FLAGS, links=links)

    def create(self, where: str, *, links: bool = True) -> int:
        """Open a directory; missing parts of the path are created."""
        with suppress(FileNotFoundError):
            return self.open(where, links=links)
        top, *rest = where.split("/")
        base = self._create_step(self._root, top)
        current = os.dup(base)
        try:
            for count, part in enumerate(rest, 1):
                try:
                    below = open_beneath(base, "/".join(rest[:count]), _DIRECTORY_FLAGS, links=links)
                except FileNotFoundError:
                    below = self._create_step(current, part)
                os.close(current)
                current = below
            return os.dup(current)
        finally:
            os.close(current)
            os.close(base)

    def _create_step(self, directory: int, name: str) -> int:
        try:
            os.mkdir(name, 0o700, dir_fd=directory)
        except FileExistsError:
            return open_beneath(directory, name, _DIRECTORY_FLAGS, links=False)
        descriptor = open_with_full_access(name, directory)
        os.fchmod(descriptor, 0o700)  # regardless of the umask
        if self._owner is not None:
            os.fchown(descriptor, *self._owner)
        return descriptor


_MESSAGES = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "has a file where a directory is needed",
    errno.EISDIR: "is a directory",
    errno.ENOTEMPTY: "is a directory",
    errno.EEXIST: "already exists",
    errno.ENXIO: "is not a regular file",
    errno.EACCES: "cannot be accessed: a command removed the permission",
    errno.EPERM: "cannot be accessed: a command removed the permission",
    errno.ENAMETOOLONG: "is too long",
}
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def translate_os_errors(path: str, *, field: str = "path") -> Generator[None]:
    """Translate an `OSError` that the caller or a script caused; the message has `path` as it was given.

    `InvalidArgument` for a missing file or wrong file type, `ForbiddenPath` for a link that is not followed,
    `LimitExceeded` if the disk is full. Other errors pass.
    """
    try:
        yield
    except ForbiddenPath as error:
        # Its message has an internal path.
        raise ForbiddenPath(f"{field}: {path!r} {error.details.get('why')}") from error
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise LimitExceeded(f"cannot write {path!r}: {error.strerror}; free some disk space") from error
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise ForbiddenPath(f"{field}: {path!r} goes through a link") from error
        if error.errno in _MESSAGES:
            raise InvalidArgument(field, f"{path!r} {_MESSAGES[error.errno]}") from error
        raise


_PASSES = 20
_NOT_YET = frozenset({errno.ENOTEMPTY, errno.EEXIST})


def remove_entry(directory: int, name: str) -> bool:
    """Remove a file, link or directory tree from the directory of this descriptor; false if it does not exist.

    Raises `OSError` if removal is not permitted, or if another process keeps adding files.
    """
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=directory)
            return True
    except FileNotFoundError:
        return False
    with suppress(FileNotFoundError):
        try:
            _remove_directory(name, directory)
        except NotADirectoryError:
            # It was a directory a moment ago.
            os.unlink(name, dir_fd=directory)
    return True


def delete_tree(path: Path) -> bool:
    """Remove a directory tree; false if it does not exist. Can be repeated after a crash, and run concurrently.

    Raises `NotADirectoryError` for a file or link, and `OSError` for anything that cannot be removed.
    """
    try:
        _remove_directory(str(path), None)
    except FileNotFoundError:
        return False
    return True


def _remove_directory(name: str, parent: int | None) -> None:
    """Remove a directory. Its subdirectories are moved to its top and emptied there, so that any depth needs few
    descriptors. Others may add files at the same time, but not forever."""
    for attempt in range(_PASSES):
        try:
            with auto_close(open_with_full_access(name, parent)) as top:
                _empty(top)
            os.rmdir(name, dir_fd=parent)
        except OSError as error:
            if error.errno not in _NOT_YET or attempt == _PASSES - 1:
                raise
        else:
            return


def _empty(top: int) -> None:
    # Random names: a second process may be emptying the same directory.
    mark, numbers = secrets.token_hex(8), count()
    waiting = _remove_files(top)
    while waiting:
        name = waiting.pop()
        with suppress(FileNotFoundError, NotADirectoryError):
            with auto_close(open_with_full_access(name, top)) as descriptor:
                for inner in _remove_files(descriptor):
                    moved = f".{mark}-{next(numbers)}"
                    if _move_up(inner, descriptor, moved, top):
                        waiting.append(moved)
            os.rmdir(name, dir_fd=top)


def _remove_files(descriptor: int) -> list[str]:
    """Remove everything except directories, and return the names of those."""
    with os.scandir(descriptor) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if not is_directory:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=descriptor)
    return [name for name, is_directory in found if is_directory]


def _move_up(name: str, parent: int, moved: str, top: int) -> bool:
    try:
        try:
            os.rename(name, moved, src_dir_fd=parent, dst_dir_fd=top)
        except PermissionError:
            # Moving a directory takes write permission for it.
            os.close(open_with_full_access(name, parent))
            os.rename(name, moved, src_dir_fd=parent, dst_dir_fd=top)
    except FileNotFoundError:
        return False
    return True
