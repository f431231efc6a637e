"""One SQLite file that many processes write to, one at a time.

The file is in WAL mode with `synchronous=FULL`: a commit is on the disk before it is acknowledged, so it outlives a
killed process and a power cut; readers do not wait for writers.
"""

import asyncio
import contextvars
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from openskills.errors import SkillError
from openskills.session.schema import STEPS, Step
from openskills.session.sqlite_asking import Asking
from openskills.session.sqlite_opening import opened

T = TypeVar("T")


class SqliteFile:
    """A database file with one connection, in one thread of its own; both begin with the first use.

    `patience` is how many seconds a writer waits for others. A forked child gets a connection of its own.
    """

    def __init__(self, path: Path, *, patience: float, steps: tuple[Step, ...] = STEPS) -> None:
        self._path = path
        self._patience = patience
        self._steps = steps
        self._lock = threading.Lock()
        self._worker: _Worker | None = None

    async def use(self, work: Callable[[Asking], T]) -> T:
        """Do some work with the connection, one after the other, while the loop goes on.

        Raises what the work raises, and `SkillError` when the file cannot be used. A cancellation does not wait for
        the end of what has begun.
        """
        context = contextvars.copy_context()
        with self._lock:
            worker = self._own_worker()
            doing = worker.thread.submit(context.run, worker.do, work)
        return await asyncio.wrap_future(doing)

    async def close(self) -> None:
        """Close the connection after what is under way; the next use opens another."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None and worker.process == os.getpid():
            closing = worker.thread.submit(worker.close)
            worker.thread.shutdown(wait=False)
            await asyncio.wrap_future(closing)

    def _own_worker(self) -> "_Worker":
        if self._worker is not None and self._worker.process != os.getpid():
            # After a fork the thread is not here, and a connection must not be used, nor closed, by two processes.
            self._worker.abandon()
            self._worker = None
        if self._worker is None:
            self._worker = _Worker(self._path, self._patience, self._steps)
        return self._worker


class _Worker:
    """The thread, and the connection that only it uses."""

    def __init__(self, path: Path, patience: float, steps: tuple[Step, ...]) -> None:
        self.process = os.getpid()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="openskills-sqlite")
        self._path = path
        self._patience = patience
        self._steps = steps
        self._asking: Asking | None = None
        self._closing: weakref.finalize[..., _Worker] | None = None
        self._identity: tuple[int, int] | None = None

    def do(self, work: Callable[[Asking], T]) -> T:
        return work(self._opened())

    def close(self) -> None:
        self._asking = None
        if self._closing is not None:
            self._closing()

    def abandon(self) -> None:
        """Never use the connection again, and never close it."""
        if self._closing is not None:
            self._closing.detach()
        _abandoned.append(self._asking)
        self._asking = None

    def _opened(self) -> Asking:
        if self._asking is None:
            self._asking = opened(self._path, patience=self._patience, steps=self._steps)
            self._identity = _identity(self._path)
            # Also closed when everybody has forgotten it; at the end of the process the system does that.
            self._closing = weakref.finalize(self, self._asking.connection.close)
            self._closing.atexit = False
        elif _identity(self._path) != self._identity:
            # To close it would remove the write-ahead log of the database that is there now.
            self.abandon()
            raise SkillError(
                f"the session store {self._path} was removed or replaced while it was in use; events that were"
                " acknowledged before are in the file that was there; see to it, then try again",
                store=str(self._path),
            )
        return self._asking


_abandoned: list[Asking | None] = []
"""Connections that must not be closed, not even by the garbage collector."""


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
