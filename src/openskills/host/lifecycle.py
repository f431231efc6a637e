"""Graceful shutdown, and the temporary directories of a host.

A lock shows whether the owner of a directory is alive: the kernel releases it when the process dies. It lies outside of
the content, where a skill that clears its home cannot remove it.
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

from openskills.executors.files.descriptors import delete_tree
from openskills.executors.records import leases
from openskills.host.service import Host

_log = logging.getLogger("openskills.host")
_END_SIGNALS = (signal.SIGTERM, signal.SIGINT)
INTERRUPT_TIMEOUT = 5.0
"""Seconds that interrupted invocations get to kill their children and respond."""
SUPERVISOR_CHECK_INTERVAL = 0.2
"""Seconds between two checks that the supervisor is alive."""


async def drain(host: Host, grace: float, delay: float = 0.0) -> None:
    """Refuse new invocations, let running ones finish for `grace` seconds, then interrupt them.

    For the first `delay` seconds new invocations are served, but the host is not ready any more.
    """
    host.stopping = True
    if delay and not host.draining:
        _log.info("not ready any more; serving for another %g s until load balancers have noticed", delay)
        await asyncio.sleep(delay)
    interrupted, host.draining = host.draining, True
    if host.in_flight and not interrupted:
        _log.info("draining: %d invocations have %g s to finish", host.in_flight, grace)
    try:
        async with asyncio.timeout(grace):
            await host.wait_idle()
    except TimeoutError:
        _log.warning("%d invocations did not finish within %g s and are interrupted", host.in_flight, grace)
        host.interrupt()
        await asyncio.wait([asyncio.ensure_future(host.wait_idle())], timeout=INTERRUPT_TIMEOUT)


@contextmanager
def drain_on_signals(host: Host, grace: float, ended: Callable[[], None], *, delay: float = 0.0) -> Generator[None]:
    """While the block runs, SIGTERM and SIGINT drain the host, call `ended`, and then reach the server. See `drain`.

    A second signal interrupts everything. Does nothing outside of the main thread.
    """
    loop = asyncio.get_running_loop()
    begun: list[asyncio.Task[None]] = []
    earlier: dict[int, Any] = {}

    async def end(number: int) -> None:
        await drain(host, grace, delay)
        ended()
        _forward_signal(number, earlier[number])

    def begin(number: int) -> None:
        if begun:
            host.interrupt()
            _forward_signal(number, earlier[number])
        else:
            begun.append(loop.create_task(end(number)))

    def on_signal(number: int, _: FrameType | None) -> None:
        loop.call_soon_threadsafe(begin, number)

    try:
        for number in _END_SIGNALS:
            earlier[number] = signal.signal(number, on_signal)
    except ValueError:
        # Not in the main thread.
        yield
        return
    try:
        yield
    finally:
        for number, handler in earlier.items():
            if signal.getsignal(number) is on_signal:
                signal.signal(number, handler)


async def exit_with_supervisor(supervisor: int) -> None:
    """End this worker when its supervisor process is gone, without waiting for running invocations."""
    while os.getppid() == supervisor:
        await asyncio.sleep(SUPERVISOR_CHECK_INTERVAL)
    _log.warning("the supervisor process is gone; stopping this worker")
    signal.raise_signal(signal.SIGTERM)
    # The first drains. The second interrupts and makes the server close its port.
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
    """A new private directory below `parent`, or below the temporary directory."""

    def __init__(self, parent: Path | None = None) -> None:
        self._whole = Path(tempfile.mkdtemp(prefix=DIRECTORY_PREFIX, dir=parent))
        self._lock = leases.take_lock(self._whole)
        if self._lock is not None:
            leases.sign_lock(self._lock)
        self.path = self._whole / _CONTENT
        self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove it; what cannot be removed now is left to `remove_orphaned_dirs`."""
        with suppress(OSError):
            _remove_directory(self._whole)
        if self._lock is not None:
            leases.release_lock(self._lock)
            self._lock = None


def remove_orphaned_dirs(parent: Path | None = None) -> int:
    """Remove directories of this user whose owner process is dead; returns how many.

    Directories without a signed lock are not touched: they belong to others, or are being created.
    """
    place, removed = parent or Path(tempfile.gettempdir()), 0
    for name in os.listdir(place):
        if name.startswith(DIRECTORY_PREFIX):
            # Removed meanwhile, or not accessible.
            with suppress(OSError):
                removed += _remove_if_orphaned(place / name)
    return removed


def _remove_if_orphaned(whole: Path) -> bool:
    lease = (whole / leases.LEASE_FILE).lstat()
    if not _is_ours(whole.lstat(), stat.S_ISDIR) or not _is_ours(lease, stat.S_ISREG) or not lease.st_size:
        return False
    lock = leases.take_lock(whole)
    if lock is None:
        return False
    try:
        _remove_directory(whole)
    finally:
        leases.release_lock(lock)
    return True


def _is_ours(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(status.st_mode) and status.st_uid == os.geteuid()


def _remove_directory(whole: Path) -> None:
    # The lock is removed last, so that an interrupted removal can be continued.
    delete_tree(whole / _CONTENT)
    delete_tree(whole)
