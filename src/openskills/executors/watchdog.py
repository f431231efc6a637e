"""Watchdog for running commands: memory, number of processes, and disk usage, which kernel limits do not cover.

It costs nothing for a command that ends within a quarter of a second, and little for one that runs quietly. Linux only.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from openskills.executors.programs.traces import PLACES
from openskills.executors.records.quota import Quota, read_free_bytes
from openskills.executors.spec import Limits, WorkspaceUsage

_PAGE = os.sysconf("SC_PAGE_SIZE")


_SOCKET_BYTES = 256 * 1024
"""Kernel memory that a socket can hold with the usual settings; buffers of pipes are smaller, and count as much."""
_MAX_LINKS = 4096
_QUEUES = 4
"""The column of /proc/net/tcp and /proc/net/udp with the bytes that wait to be sent and to be read."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The number of processes, their total memory in bytes, and the disk space of files that they have unlinked."""

    processes: int
    memory: int
    unlinked: int = 0


def measure_footprint(pid: int, *, exact_above: int | None = None, disk: int | None = None) -> Footprint:
    """The usage of a process and its descendants. Blocking.

    Memory is the sum of resident sizes, which counts shared pages several times, with all shared memory whether it is
    mapped in or not, files in the memory of a sandbox, an estimate for sockets and pipes, and what waits in sockets. If
    that exceeds `exact_above`, each page is counted once as far as permissions allow, which takes longer. Unlinked
    files count on the device `disk` (as in `st_dev`) only.
    """
    pids = list_descendants(pid)
    hidden = _HiddenUsage(disk)
    for each in pids:
        hidden.add_mappings(each)
        hidden.add_descriptors(each)
        hidden.add_sandbox(each)
    kernel = hidden.sockets * _SOCKET_BYTES + hidden.queued
    shared = sum(hidden.shared.values()) + sum(hidden.files.values())
    memory = sum(map(_read_resident, pids)) + (shared and max(shared - sum(map(_read_resident_shared, pids)), 0))
    if exact_above is not None and memory + kernel > exact_above:
        found = [_read_proportional(each) for each in pids]
        memory = sum(whole - part for whole, part in found) + max(shared, sum(part for _, part in found))
    return Footprint(len(pids), memory + kernel, sum(hidden.unlinked.values()))


class _HiddenUsage:
    """What processes use that is not part of their resident sizes: shared memory, sockets, files in memory, unlinked
    files."""

    def __init__(self, disk: int | None) -> None:
        self._disk = disk
        self._links = 0
        self._seen: set[str] = set()
        self.sockets = 0
        self.shared: dict[tuple[str, str], int] = {}
        self.unlinked: dict[int | str, int] = {}
        self.files: dict[int, int] = {}
        self.queued = 0
        self._networks = {_read_network(os.getpid())}

    def add_mappings(self, pid: int) -> None:
        """Shared mappings of memory and of unlinked files. Their pages stay, even if no process has them mapped in."""
        for line in _read_file(f"/proc/{pid}/maps").decode("ascii", "replace").splitlines():
            if not line.endswith("(deleted)"):
                continue
            span, permissions, offset, device, inode, path = line.split(maxsplit=5)
            if not permissions.endswith("s"):
                continue
            start, end = (int(address, 16) for address in span.split("-"))
            if path.startswith(("/dev/zero ", "/memfd:", "/SYSV")):
                self.shared[inode, offset] = max(end - start, self.shared.get((inode, offset), 0))
            elif self._disk is not None and device == f"{os.major(self._disk):02x}:{os.minor(self._disk):02x}":
                self.unlinked.setdefault(int(inode), end - start)

    def add_descriptors(self, pid: int) -> None:
        """Sockets, pipes and unlinked files. Of very many descriptors each is taken for a socket."""
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            return
        self._links += len(names)
        if self._links > _MAX_LINKS:
            self.sockets += len(names)
            return
        for name in names:
            with suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{name}")
                if target.startswith(("socket:", "pipe:")):
                    self.sockets += target not in self._seen
                    self._seen.add(target)
                elif self._disk is not None and target.endswith(" (deleted)"):
                    found = os.stat(f"/proc/{pid}/fd/{name}")
                    if found.st_dev == self._disk and found.st_nlink == 0:
                        self.unlinked[found.st_ino] = found.st_blocks * 512

    def add_sandbox(self, pid: int) -> None:
        """Files in the in-memory directories of its sandbox, and data that wait in the sockets there."""
        for place in PLACES:
            with suppress(OSError):
                path = f"/proc/{pid}/root{place}"
                device = os.stat(path).st_dev
                if device not in self.files and device != _read_device(place):
                    found = os.statvfs(path)
                    self.files[device] = (found.f_blocks - found.f_bfree) * found.f_frsize
        network = _read_network(pid)
        if network is None or network in self._networks:
            return
        self._networks.add(network)
        for name in ("tcp", "tcp6", "udp", "udp6"):
            for line in _read_file(f"/proc/{pid}/net/{name}").splitlines()[1:]:
                # All are of the sandbox, also those that no descriptor refers to any more.
                sent, _, received = line.split()[_QUEUES].partition(b":")
                self.queued += int(sent, 16) + int(received, 16)


def _read_network(pid: int) -> str | None:
    """The network namespace of a process; None if that is not permitted."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def _read_device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev
    except OSError:
        return None


def list_descendants(pid: int, *, max_processes: int = 4096) -> list[int]:
    """A process and its descendants, including those in other namespaces, up to `max_processes`. Blocking."""
    found = [pid] if os.path.exists(f"/proc/{pid}") else []
    for parent in found:
        if len(found) > max_processes:
            break
        with suppress(OSError):
            # Each thread has its own list.
            for task in os.listdir(f"/proc/{parent}/task"):
                found += map(int, _read_file(f"/proc/{parent}/task/{task}/children").split())
    return found


def _read_resident(pid: int) -> int:
    fields = _read_file(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if len(fields) > 1 else 0


def _read_resident_shared(pid: int) -> int:
    return _read_sizes(f"/proc/{pid}/status").get("RssShmem", 0)


def _read_proportional(pid: int) -> tuple[int, int]:
    """The resident size with each shared page divided among its users, and the part of it that is shared memory."""
    sizes = _read_sizes(f"/proc/{pid}/smaps_rollup")
    if "Pss" in sizes:
        return sizes["Pss"], sizes.get("Pss_Shmem", 0)
    # Not permitted: fall back to the resident size.
    return _read_resident(pid), _read_resident_shared(pid)


def _read_sizes(path: str) -> dict[str, int]:
    lines = (line.split() for line in _read_file(path).decode("ascii", "replace").splitlines() if line.endswith(" kB"))
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines}


def _read_file(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    found = b""
    try:
        # A long list arrives in pages.
        while piece := os.read(descriptor, 1 << 16):
            found += piece
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return found


FIRST_CHECK = 0.25
_MAX_INTERVAL = 0.5
_FIRST_MEASURE, _MAX_MEASURE_INTERVAL = 1.0, 30.0
_SHARE = 20
"""Checks take at most 1/20 of the time."""


async def watch(
    pid: int | None,
    limits: Limits,
    measure: Callable[[], WorkspaceUsage] | None = None,
    quota: Quota | None = None,
    disk: Path | None = None,
) -> str:
    """Wait until the command under `pid` exceeds a limit, and return a sentence that names it.

    Monitors the memory and the number of its processes (up to twice the limit) and, with `measure`, the size of the
    workspace on the disk of the directory `disk` with files that were unlinked, and the free space there. `measure` is
    called in a thread, which may still run after this is cancelled, so it must not use anything that gets closed.
    Without a `pid`, only the workspace and the disk are monitored.
    """
    device = None if disk is None else os.stat(disk).st_dev
    processes = _BackoffTimer(FIRST_CHECK, _MAX_INTERVAL)
    workspace = _BackoffTimer(_FIRST_MEASURE, _MAX_MEASURE_INTERVAL)
    last: WorkspaceUsage | None = None
    seen = Footprint(0, 0)
    while True:
        due = processes.due if measure is None else min(processes.due, workspace.due)
        await asyncio.sleep(max(due - time.monotonic(), 0.0))
        message = ""
        begun = time.monotonic()
        if processes.due <= begun:
            if pid is not None:
                memory = limits.total_memory_bytes
                seen = await asyncio.to_thread(measure_footprint, pid, exact_above=memory, disk=device)
                message = _describe_excess(seen, limits)
            if not message and quota is not None and disk is not None:
                message = await asyncio.to_thread(_check_disk, seen.unlinked, quota, disk)
            processes.schedule(begun, quiet=not _is_near_limit(seen, limits))
        elif measure is not None and quota is not None:
            usage = await asyncio.to_thread(measure)
            message = quota.describe_excess(replace(usage, bytes=usage.bytes + seen.unlinked))
            workspace.schedule(begun, quiet=usage == last)
            last = usage
        if message:
            return message


def _check_disk(unlinked: int, quota: Quota, disk: Path) -> str:
    if unlinked > quota.max_bytes:
        return f"it keeps {unlinked:,} bytes of unlinked files open; the maximum for a workspace is {quota.max_bytes:,}"
    left = read_free_bytes(disk)
    if left < quota.min_free_bytes:
        return f"only {left:,} bytes of disk space are left; {quota.min_free_bytes:,} must stay free"
    return ""


class CallWatch:
    """Begins to watch after a delay, and reports once what was exceeded. What ends soon only costs a timer."""

    def __init__(
        self, begin: Callable[[], Awaitable[str]], on_excess: Callable[[str], None], *, delay: float = FIRST_CHECK
    ) -> None:
        self._begin, self._on_excess = begin, on_excess
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(delay, self._start)

    def close(self) -> None:
        """Stop watching."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        self._on_excess(await self._begin())


class _BackoffTimer:
    """When to check next: the interval doubles after each quiet check and is reset by any other."""

    def __init__(self, min_interval: float, max_interval: float) -> None:
        self._min_interval = min_interval
        self._max_interval = max_interval
        self._pause = min_interval / 2
        self.due = time.monotonic() + min_interval

    def schedule(self, begun: float, *, quiet: bool) -> None:
        """After a check that began at this time."""
        now = time.monotonic()
        self._pause = min(self._pause * 2, self._max_interval) if quiet else self._min_interval
        self.due = now + max(self._pause, (now - begun) * _SHARE)


def _describe_excess(seen: Footprint, limits: Limits) -> str:
    memory, number = limits.total_memory_bytes, limits.processes
    if memory is not None and seen.memory > memory:
        return f"its {seen.processes} processes used {seen.memory:,} bytes of memory; the limit is {memory:,}"
    if number is not None and seen.processes > 2 * number:
        return f"it had {seen.processes:,} processes; the limit is {number:,}"
    return ""


def _is_near_limit(seen: Footprint, limits: Limits) -> bool:
    memory, number = limits.total_memory_bytes, limits.processes
    return (memory is not None and seen.memory > memory // 4) or (number is not None and seen.processes > number // 2)
