"""Opening one SKILL.md: whatever lies there, it neither blocks nor leads out of the folder nor fills the memory."""

import errno
import os
import stat

from openskills.errors import ForbiddenPath
from openskills.paths import open_inside
from openskills.skillmd.decode import decode, too_large
from openskills.skillmd.limits import MAX_FILE_BYTES
from openskills.skillmd.problem import Problem

SKILL_FILE = "SKILL.md"

Stamp = tuple[int, int, int, int]
"""Modified, changed (nanoseconds), size, inode: as long as these are the same, so is the content."""

# O_NONBLOCK: opening a FIFO without a writer must not wait.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class NoSkillFile(Exception):
    """There is no SKILL.md in the folder."""


def read_skill_text(directory: str) -> tuple[str, Problem | None]:
    """The text of the folder's SKILL.md, or an empty text and the reason why there is none."""
    try:
        _, data, problem = read_skill_file(directory)
    except NoSkillFile:
        return "", Problem("file-missing", f"there is no {SKILL_FILE} in {directory}")
    return ("", problem) if problem is not None else decode(data)


def read_skill_file(directory: str) -> tuple[Stamp | None, bytes, Problem | None]:
    """The stamp and bytes of the folder's SKILL.md, or the problem with it. Raises `NoSkillFile` when it has none."""
    path = f"{directory}/{SKILL_FILE}"
    try:
        descriptor = os.open(path, _FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise NoSkillFile from None
        if error.errno != errno.ELOOP:
            return None, b"", _unreadable(error)
        return _read_link(directory)
    return _read(descriptor)


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file or directory."""
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def _read_link(directory: str) -> tuple[Stamp | None, bytes, Problem | None]:
    try:
        return _read(open_inside(directory, SKILL_FILE))
    except ForbiddenPath:
        message = f"{SKILL_FILE} is a link that leads out of its folder; put the file itself there"
        return None, b"", Problem("link-leaves-skill", message)
    except OSError as error:
        return None, b"", _unreadable(error)


def _read(descriptor: int) -> tuple[Stamp | None, bytes, Problem | None]:
    try:
        status = os.fstat(descriptor)
        stamp = stamp_of(status)
        if not stat.S_ISREG(status.st_mode):
            return stamp, b"", Problem("file-type", f"{SKILL_FILE} is {_kind(status.st_mode)}, not a file")
        if status.st_size > MAX_FILE_BYTES:
            return stamp, b"", too_large(status.st_size)
        # A file that grows in this moment has a new stamp the next time somebody looks.
        data = os.read(descriptor, status.st_size) if status.st_size else b""
    except OSError as error:
        return None, b"", _unreadable(error)
    finally:
        os.close(descriptor)
    return stamp, data, None


def _unreadable(error: OSError) -> Problem:
    return Problem("file-unreadable", f"{SKILL_FILE} cannot be read: {error.strerror or error}")


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
