"""Safe paths: the only module that turns untrusted names into paths."""

import errno
import os
import unicodedata
from pathlib import Path, PurePosixPath

from openskills.errors import ForbiddenPath, InvalidArgument

MAX_PATH = 4096
MAX_COMPONENT = 255
MAX_LINKS = 40


def parse_relative(name: str, *, field: str = "path") -> PurePosixPath:
    """Parse untrusted text as a relative POSIX path without `..`.

    Raises `InvalidArgument` for NUL bytes and for empty or overlong names, `ForbiddenPath` for absolute paths and `..`.
    Backslashes, `~` and `$` are ordinary characters.
    """
    if "\0" in name:
        raise InvalidArgument(field, f"{name!r} contains a NUL byte")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise InvalidArgument(field, f"{name!r} contains a lone surrogate") from None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/"):
        raise ForbiddenPath(f"{field}: {name!r} is absolute; use a path relative to the folder")
    if ".." in parts:
        raise ForbiddenPath(f"{field}: {name!r} leaves its directory with '..'")
    if not parts:
        raise InvalidArgument(field, f"{name!r} is not a file name")
    if len(os.fsencode(name)) >= MAX_PATH or any(len(os.fsencode(part)) > MAX_COMPONENT for part in parts):
        raise InvalidArgument(field, f"a path of {len(name)} characters is too long")
    return PurePosixPath(*parts)


def inside(root: Path, name: str, *, field: str = "path") -> Path:
    """The path of `name` under `root`, with every symbolic link resolved.

    Raises `ForbiddenPath` when it is outside `root`. Valid at the moment of the call only: if others may rename files
    meanwhile, use `open_inside`.
    """
    base = Path(os.path.realpath(root))
    target = Path(os.path.realpath(base / parse_relative(name, field=field)))
    if target != base and base not in target.parents:
        raise ForbiddenPath(f"{field}: {name!r} leads out of {root.name or root}")
    return target


def open_inside(root: str, name: str, *, field: str = "path") -> int:
    """Open `name` under `root` for reading, component by component, so that a swapped link cannot lead outside.

    Links are followed while they stay inside. Never waits for a FIFO. Raises `ForbiddenPath` for a path that leaves
    `root`, and `OSError` when it cannot be opened.
    """
    opened = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    waiting = list(reversed(parse_relative(name, field=field).parts))
    links = 0
    try:
        while waiting:
            part = waiting.pop()
            if part == "..":
                os.close(opened.pop())
                if not opened:
                    raise ForbiddenPath(f"{field}: {name!r} leads out of {os.path.basename(root)}")
            elif part not in ("", "."):
                target = _open_part(opened, part)
                links += target is not None
                if links > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
                if target is not None and target.startswith("/"):
                    raise ForbiddenPath(f"{field}: {name!r} leads out of {os.path.basename(root)}")
                waiting.extend(reversed(target.split("/")) if target else ())
        return opened.pop()
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _open_part(opened: list[int], part: str) -> str | None:
    """Open the next component below the last one; a link is not opened, but its target is returned."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        opened.append(os.open(part, flags, dir_fd=opened[-1]))
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK):
            raise
        return os.readlink(part, dir_fd=opened[-1])
    return None


def to_printable(text: str) -> str:
    """Text that is safe to print: control and invisible characters are escaped."""

    def escape(char: str) -> str:
        if unicodedata.category(char) == "Cs":
            return f"\\x{ord(char) & 0xFF:02x}"
        return char.encode("unicode_escape").decode("ascii")

    return "".join(char if char.isprintable() else escape(char) for char in text)
