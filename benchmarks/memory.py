"""What processes take of the machine's memory, from /proc."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Taken:
    """Bytes of some processes, shared ones divided among all who share them; `unreadable` could not be counted."""

    size: int
    processes: int
    unreadable: int = 0


def taken_by(pid: int) -> Taken:
    """What a process and all its descendants take."""
    sizes = [_share(one) for one in (pid, *descendants(pid))]
    known = [size for size in sizes if size is not None]
    return Taken(sum(known), len(sizes), len(sizes) - len(known))


def descendants(pid: int) -> Iterator[int]:
    """Children, their children and so on, as long as they are there."""
    for child in _children(pid):
        yield child
        yield from descendants(child)


def identity(pid: int) -> tuple[int, str] | None:
    """A process and the moment it began, which tells it from a later one with the same number; None when gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else (pid, fields[19])


def available() -> int:
    """Bytes that the machine could still give out."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def _share(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return None
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    except OSError:
        return found
    return found
