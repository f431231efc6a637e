"""Files of this machine that a person sends with a message."""

import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from openskills.agent.attachments import Attachment
from openskills.cli.output import counted, plain
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.executors.files.mime import SNIFFED, mime_type
from openskills.executors.files.uploads import upload_name
from openskills.tools.uploads import UploadLimits

STDIN = "-"
_MOST = UploadLimits().file_bytes


def is_file(path: str) -> bool:
    """Whether there is a regular file at a path as people write it: `~` is the home directory."""
    try:
        return stat.S_ISREG(_place(path).stat().st_mode)
    except (OSError, ValueError):
        return False


def name_of(path: str) -> str | None:
    """What the agent will call the file at a path; None when there is none."""
    return upload_name(os.path.basename(path)) if is_file(path) else None


def path_of(path: str) -> str | None:
    """A path as it was written; None when there is no file."""
    return path if is_file(path) else None


def all_different(names: Iterable[str | None]) -> bool:
    """Whether no two names are the same to somebody who reads them."""
    found = [upload_name(name or "").casefold() for name in names]
    return len(set(found)) == len(found)


def attachment(path: str, *, field: str = "--attach") -> Attachment:
    """The file at a path; `-` is what is piped in. Raises `InvalidArgument`, or `LimitExceeded` for one too large."""
    if path == STDIN:
        return _made("stdin", sys.stdin.buffer.read(_MOST + 1), field)
    try:
        with open(_place(path), "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidArgument(field, f"{plain(path)!r} is no file; send files, each by its path")
            return _made(os.path.basename(path), file.read(_MOST + 1), field)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidArgument(field, f"{plain(path)!r} cannot be read: {reason}") from None


def shown(file: Attachment) -> str:
    """`sales.csv (48 bytes)`."""
    return f"{plain(file.name)} ({counted(len(file.data or b''), 'byte')})"


def _made(name: str, data: bytes, field: str) -> Attachment:
    if len(data) > _MOST:
        raise LimitExceeded(f"{field}: {plain(name)} has more than {_MOST:,} bytes, which is the most for one file")
    return Attachment(name, data, mime_type=mime_type(name, data[:SNIFFED]))


def _without_waiting(path: str, flags: int) -> int:
    # Whoever opens a pipe otherwise waits until somebody writes into it.
    return os.open(path, flags | os.O_NONBLOCK)


def _place(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        # `~nobody`: there is no such user, so it is a name like any other.
        return Path(path)
