"""Draining, own directories.

The end of a host: what runs may finish, what comes is sent elsewhere, then it is over.

A temporary directory that lives as long as the host that made it. What a killed host has left, the next removes.

A lock says whether the owner lives: the system takes it from a process that dies. It lies beside what the directory is
for, where no skill that clears its home gets at it. Blocking.
"""

import asyncio
import logging
import os
import signal
import stat
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from openskills.executors.files.beneath import delete_tree
from openskills.executors.records import leases
from openskills.host.service import Host

_log = logging.getLogger("openskills.host")
_END_SIGNALS = (signal.SIGTERM, signal.SIGINT)
INTERRUPT_TIMEOUT = 5.0
"""Seconds for what was interrupted to end its children and to answer."""
SUPERVISOR_CHECK_INTERVAL = 0.2
"""Seconds between two looks for the supervisor."""


async def drain(host: Host, grace: float) -> None:
    """Let what runs go on for so many seconds, then interrupt it. From now on everything new is refused."""
    interrupted, host.draining = host.draining, True
    if host.in_flight and not interrupted:
        _log.info("about to end: %d invocations have %g s to finish", host.in_flight, grace)
    try:
        async with asyncio.timeout(grace):
            await host.wait_idle()
    except TimeoutError:
        _log.warning("%d invocations did not finish within %g s and are interrupted", host.in_flight, grace)
        host.interrupt()
        await asyncio.wait([asyncio.ensure_future(host.wait_idle())], timeout=INTERRUPT_TIMEOUT)


@contextmanager
def drain_on_signals(host: Host, grace: float, ended: Callable[[], None]) -> Generator[None]:
    """In this block SIGTERM and SIGINT drain the host first; then the server gets the signal. A second one is final.

    `ended` is called between the two. Where signals belong to somebody else, as in a thread, they stay theirs.
    """
    loop = asyncio.get_running_loop()
    begun: list[asyncio.Task[None]] = []
    earlier: dict[int, Any] = {}

    async def end(number: int) -> None:
        await drain(host, grace)
        ended()
        _forward_signal(number, earlier[number])

    def begin(number: int) -> None:
        if begun:
            host.interrupt()
            _forward_signal(number, earlier[number])
        else:
            begun.append(loop.create_task(end(number)))

    def caught(number: int, _: FrameType | None) -> None:
        loop.call_soon_threadsafe(begin, number)

    try:
        for number in _END_SIGNALS:
            earlier[number] = signal.signal(number, caught)
    except ValueError:
        # Not in the main thread: whoever started us tells us in another way.
        yield
        return
    try:
        yield
    finally:
        for number, handler in earlier.items():
            if signal.getsignal(number) is caught:
                signal.signal(number, handler)


async def exit_with_supervisor(supervisor: int) -> None:
    """A worker whose supervisor was killed ends by itself, even if that was before it had begun.

    It does not wait for what runs: its supervisor was not asked gently either, and whoever starts it again wants the
    port.
    """
    while os.getppid() == supervisor:
        await asyncio.sleep(SUPERVISOR_CHECK_INTERVAL)
    _log.warning("the process that started this worker is gone; it ends, too")
    signal.raise_signal(signal.SIGTERM)
    # The first lets what runs finish. The second interrupts it and has the server close its port.
    signal.raise_signal(signal.SIGTERM)


def _forward_signal(number: int, handler: Any) -> None:
    if callable(handler):
        handler(number, None)
        return
    signal.signal(number, handler)
    os.kill(os.getpid(), number)


DIRECTORY_PREFIX = "openskills-host-"
_CONTENT = "content"


class HostDirectory:
    """A new one, below `parent` or where temporary files are; nobody but this user can look into it."""

    def __init__(self, parent: Path | None = None) -> None:
        self._whole = Path(tempfile.mkdtemp(prefix=DIRECTORY_PREFIX, dir=parent))
        self._lock = leases.take_lock(self._whole)
        if self._lock is not None:
            leases.sign_lock(self._lock)
        self.path = self._whole / _CONTENT
        self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove it with all that it holds; what cannot be removed now is left to the next host."""
        with suppress(OSError):
            _remove_directory(self._whole)
        if self._lock is not None:
            leases.release_lock(self._lock)
            self._lock = None


def remove_orphaned_dirs(parent: Path | None = None) -> int:
    """Remove the directories of this user whose owner lives no more; returns how many.

    One without a signed lock is not touched: it is somebody else's, or is being made.
    """
    place, removed = parent or Path(tempfile.gettempdir()), 0
    for name in os.listdir(place):
        if name.startswith(DIRECTORY_PREFIX):
            # Gone meanwhile, or not to be looked into: neither is ours to remove.
            with suppress(OSError):
                removed += _remove_if_orphaned(place / name)
    return removed


def _remove_if_orphaned(whole: Path) -> bool:
    if not _is_ours(whole.lstat(), stat.S_ISDIR) or not _is_signed(whole / leases.LEASE_FILE):
        return False
    lock = leases.take_lock(whole)
    if lock is None:
        return False
    try:
        _remove_directory(whole)
    finally:
        leases.release_lock(lock)
    return True


def _is_signed(lease: Path) -> bool:
    status = lease.lstat()
    return _is_ours(status, stat.S_ISREG) and status.st_size > 0


def _is_ours(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(status.st_mode) and status.st_uid == os.geteuid()


def _remove_directory(whole: Path) -> None:
    # The lock goes last: as long as it is there, whoever comes next can see that this was to be removed.
    delete_tree(whole / _CONTENT)
    delete_tree(whole)
