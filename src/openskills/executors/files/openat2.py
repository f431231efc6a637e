"""Opening files below a directory, so that no link and no rename leads out of it: the kernel's confined open."""

import ctypes
import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

from openskills.errors import ForbiddenPath, InvalidArgument

PATH_ONLY: int = getattr(os, "O_PATH", os.O_RDONLY)
"""Opens a name without opening what it stands for, where the system can do that."""

_NUMBER = 437  # the same on every architecture that Python runs on
_AT_FDCWD = -100
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
_TRIES = 1000


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(directory: int, path: str, flags: int, mode: int = 0, *, links: bool = True) -> int:
    """A descriptor for `path`, relative to the descriptor `directory`; whoever renames what meanwhile, it is below it.

    Links are followed as long as they stay below; with `links=False` none is. Where the kernel has no `openat2`, no
    link is followed either way. Raises `ForbiddenPath` for what leads out (or through a link that is not followed),
    `InvalidArgument` for a NUL byte, `OSError` for everything else. Give `O_NONBLOCK` when it may be a FIFO.
    """
    if "\0" in path:
        raise InvalidArgument("path", f"{path!r} contains a NUL byte")
    if kernel_can():
        return kernel_open(directory, path, flags, mode, links=links)
    return step_open(directory, path, flags, mode)


@contextmanager
def opened(descriptor: int) -> Generator[int]:
    """A descriptor that is closed at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def kernel_open(directory: int, path: str, flags: int, mode: int = 0, *, links: bool = True) -> int:
    """See `open_beneath`; by the system call `openat2`."""
    resolve = _BENEATH | _NO_MAGIC_LINKS | (0 if links else _NO_LINKS)
    how = _How(_complete(flags), mode, resolve)
    number = 0
    for _ in range(_TRIES):
        descriptor, number = _call(directory, os.fsencode(path), how)
        if descriptor >= 0:
            return descriptor
        # The kernel could not make sure that `..` stayed below, because something was renamed at that moment.
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    if number in (errno.EXDEV, errno.ELOOP):
        raise _forbidden(path, "leads out of its directory" if number == errno.EXDEV else "goes through a link")
    raise OSError(number, os.strerror(number), path)


def step_open(directory: int, path: str, flags: int, mode: int = 0) -> int:
    """See `open_beneath`; one part of the path after the other, no link followed."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        raise _forbidden(path, "leads out of its directory")
    parts = [part for part in parts if part not in ("", ".")] or ["."]
    last = parts.pop()
    current = os.open(".", _complete(PATH_ONLY | os.O_DIRECTORY), dir_fd=directory)
    try:
        for part in parts:
            below = _step(current, part, PATH_ONLY | os.O_DIRECTORY, 0, path)
            os.close(current)
            current = below
        return _step(current, last, flags, mode, path)
    finally:
        os.close(current)


@cache
def kernel_can() -> bool:
    """Whether the kernel has `openat2`, and lets us use it: some containers filter calls that they do not know."""
    if not hasattr(os, "O_PATH"):
        return False
    descriptor, _ = _call(_AT_FDCWD, b"/", _How(PATH_ONLY | os.O_CLOEXEC, 0, 0))
    if descriptor < 0:
        return False
    os.close(descriptor)
    return True


def _call(directory: int, path: bytes, how: _How) -> tuple[int, int]:
    descriptor = _library().syscall(
        ctypes.c_long(_NUMBER),
        ctypes.c_int(directory),
        ctypes.c_char_p(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    return descriptor, ctypes.get_errno()


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def _complete(flags: int) -> int:
    # A terminal that a script names must not become ours. With O_PATH nothing is opened, and openat2 minds the rest.
    return flags | os.O_CLOEXEC | (0 if flags & PATH_ONLY else os.O_NOCTTY)


def _step(current: int, part: str, flags: int, mode: int, path: str) -> int:
    try:
        return os.open(part, _complete(flags | os.O_NOFOLLOW), mode, dir_fd=current)
    except OSError as error:
        # With O_DIRECTORY a link is "not a directory".
        if error.errno in (errno.ELOOP, errno.EMLINK) or (error.errno == errno.ENOTDIR and _is_link(current, part)):
            raise _forbidden(path, "goes through a link") from error
        raise OSError(error.errno, error.strerror, path) from error


def _is_link(current: int, part: str) -> bool:
    try:
        os.readlink(part, dir_fd=current)
    except OSError:
        return False
    return True


def _forbidden(path: str, why: str) -> ForbiddenPath:
    return ForbiddenPath(f"path: {path!r} {why}", why=why)
