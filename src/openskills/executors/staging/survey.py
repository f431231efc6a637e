"""What is in a skill's folder, and when it was changed: names and stamps, without reading any file."""

import os
import stat
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from enum import StrEnum

from openskills.errors import ForbiddenPath, InvalidSkill, LimitExceeded
from openskills.executors.files.openat2 import open_beneath, opened
from openskills.executors.layout import RESERVED
from openskills.paths import open_inside, printable

MAX_ENTRIES = 20_000
MAX_BYTES = 512 * 1024 * 1024

NOT_SHIPPED = frozenset({".git", ".hg", ".svn", "__pycache__"})
"""What lies in an author's folder and is no part of the skill."""

_SETTLED = 20_000_000

Stamp = tuple[int, ...]


class Kind(StrEnum):
    """What becomes of an entry in a snapshot."""

    DIRECTORY = "d"
    FILE = "f"
    LINK = "l"
    LEFT_OUT = "x"


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of the folder; `why` says why it is left out, `target` where a link leads."""

    path: str
    kind: Kind
    stamp: Stamp
    why: str = ""
    target: str = ""


def stamp_of(status: os.stat_result) -> Stamp:
    """What changes when a file is changed; the change time, the last one, cannot be set by a program."""
    return (status.st_mode, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


def is_settled(stamp: Stamp, now: int) -> bool:
    """Whether a change from `now` on gives another stamp. It may not when the last one was a moment ago, within two
    ticks of the slowest clock of a file system."""
    return stamp[4] < now - _SETTLED


def survey(folder: str) -> list[Item]:
    """Everything in the folder, sorted by path. A link to a file in the same folder counts as that file, and one to a
    directory in it stays a link.

    Raises `LimitExceeded` for more than 20,000 entries or 512 MiB, `InvalidSkill` for what cannot be read.
    """
    items: list[Item] = []
    total = 0
    for item in _walk(folder):
        items.append(item)
        total += item.stamp[1] if item.kind is Kind.FILE else 0
        if len(items) > MAX_ENTRIES:
            raise LimitExceeded(f"{folder} has more than {MAX_ENTRIES:,} files; no skill needs that many")
        if total > MAX_BYTES:
            raise LimitExceeded(f"{folder} has more than {MAX_BYTES // 1024**2} MiB; no skill needs that much")
    directories = {item.path for item in items if item.kind is Kind.DIRECTORY}
    return sorted((_checked(item, directories) for item in items), key=lambda item: os.fsencode(item.path))


def _checked(item: Item, directories: Set[str]) -> Item:
    """A link to a directory is kept only when it says the way to one that is copied: then it leads nowhere else,
    wherever the copy lies and whatever happens to the folder meanwhile."""
    if item.kind is not Kind.LINK:
        return item
    parts = [part for part in item.target.split("/") if part not in ("", ".")]
    # Up first and then down: on any other way there could be a link, after which `..` is not what it looks like.
    is_plain = ".." not in parts[parts.count("..") :]
    leads_to = os.path.normpath(os.path.join(os.path.dirname(item.path), item.target))
    if not is_plain or leads_to not in directories:
        return replace(item, kind=Kind.LEFT_OUT, why="is a link that does not say the way to a directory of the skill")
    if item.path.startswith(f"{leads_to}/"):
        return replace(item, kind=Kind.LEFT_OUT, why="is a link to a directory that it lies in itself")
    return item


def unreadable(folder: str, path: str, error: OSError) -> InvalidSkill:
    """The error for something in a skill's folder that cannot be read."""
    shown = printable(os.path.join(folder, path))
    return InvalidSkill(f"{shown} cannot be read: {error.strerror}; make it readable or remove it")


def _walk(folder: str) -> Iterator[Item]:
    prefix = ""
    try:
        with opened(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
            waiting = [""]
            while waiting:
                prefix = waiting.pop()
                for item in _inside(folder, root, prefix):
                    yield item
                    if item.kind is Kind.DIRECTORY:
                        waiting.append(f"{item.path}/")
    except OSError as error:
        raise unreadable(folder, prefix, error) from error


def _inside(folder: str, root: int, prefix: str) -> Iterator[Item]:
    descriptor = open_beneath(root, prefix or ".", os.O_RDONLY | os.O_DIRECTORY, links=False)
    with opened(descriptor), os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.name not in NOT_SHIPPED:
                yield _item(folder, prefix + entry.name, entry.stat(follow_symlinks=False))


def _item(folder: str, path: str, status: os.stat_result) -> Item:
    stamp = stamp_of(status)
    if path in RESERVED:
        return Item(path, Kind.LEFT_OUT, stamp, "has a name that a workspace needs itself; rename it")
    if stat.S_ISDIR(status.st_mode):
        return Item(path, Kind.DIRECTORY, stamp)
    if stat.S_ISREG(status.st_mode):
        return Item(path, Kind.FILE, stamp)
    if stat.S_ISLNK(status.st_mode):
        return _linked(folder, path, stamp)
    return Item(path, Kind.LEFT_OUT, stamp, "is no file (a FIFO, socket or device)")


def _linked(folder: str, path: str, stamp: Stamp) -> Item:
    """What a link is: the file in the same folder that it leads to, changed when either is, or a way to a directory."""
    try:
        with opened(open_inside(folder, path)) as descriptor:
            status = os.fstat(descriptor)
    except ForbiddenPath:
        return Item(path, Kind.LEFT_OUT, stamp, "is a link that leads out of the skill")
    except OSError:
        return Item(path, Kind.LEFT_OUT, stamp, "is a link that leads nowhere")
    if stat.S_ISDIR(status.st_mode):
        return Item(path, Kind.LINK, stamp, target=os.readlink(os.path.join(folder, path)))
    if not stat.S_ISREG(status.st_mode):
        return Item(path, Kind.LEFT_OUT, stamp, "is a link to something that is no file")
    target = stamp_of(status)
    newest = (max(target[3], stamp[3]), max(target[4], stamp[4]))
    return Item(path, Kind.FILE, (*target[:3], *newest, *stamp))
