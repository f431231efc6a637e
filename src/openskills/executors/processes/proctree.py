"""The processes below one process, and the memory they use, as /proc shows them. Blocking, Linux only."""

import os
from contextlib import suppress
from dataclasses import dataclass

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Footprint:
    """How many processes there are, and how many bytes of memory they have together."""

    processes: int
    memory: int


NOTHING = Footprint(0, 0)


def footprint(pid: int, *, exact_above: int | None = None, most: int = 4096) -> Footprint:
    """What a process and all below it use; those that end meanwhile may be missing. Stops counting at `most`.

    Memory is first the sum of what each has resident, which counts shared pages many times. Where that is more than
    `exact_above`, each page is counted once, as far as we may look: that takes longer.
    """
    pids = descendants(pid, most=most)
    memory = sum(map(_resident, pids))
    if exact_above is not None and memory > exact_above:
        memory = sum(map(_proportional, pids))
    return Footprint(len(pids), memory)


def descendants(pid: int, *, most: int = 4096) -> list[int]:
    """A process and all below it, also those inside of a namespace of their own."""
    found = [pid] if os.path.exists(f"/proc/{pid}") else []
    for parent in found:
        if len(found) > most:
            break
        found.extend(_children(parent))
    return found


def _children(pid: int) -> list[int]:
    # Each thread has its own. Who is gone has none.
    children: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            children += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    return children


def _resident(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if len(fields) > 1 else 0


def _proportional(pid: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    # Not ours to look at in such detail: then with what it shares.
    return _resident(pid)


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    found = b""
    try:
        # A long list comes in pieces of a page.
        while piece := os.read(descriptor, 1 << 16):
            found += piece
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return found
