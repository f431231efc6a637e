"""The host's database: one SQLite file that all workers share, without ever keeping an event loop waiting."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from openskills.host.books.database_connection import Connected
from openskills.host.books.database_opening import transaction

T = TypeVar("T")
PATIENCE = 5.0


class Database:
    """Two connections to a file, one that writes and one that reads, each in a thread of its own.

    Making one touches nothing; the first use makes the file. `None` is a database in memory, for one process only.
    What is done with it is blocking code that gets the connection. It must be made in the process that uses it, not
    before a fork. `patience` is how many seconds a writer waits for those of other processes.
    """

    def __init__(self, path: Path | None, *, patience: float = PATIENCE) -> None:
        self.path = path
        self._writer = _Worker(path, patience)
        # What is in memory is in one connection only.
        self._reader = self._writer if path is None else _Worker(path, patience)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do this in one transaction. Raises what it raises, and `StoreUnavailable`."""
        return await self._writer.do(lambda connection: _in_transaction(connection, work))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do this without waiting for anybody who writes. Raises what it raises, and `StoreUnavailable`."""
        return await self._reader.do(work)

    async def close(self) -> None:
        """Close both connections after what is under way."""
        await self._writer.close()
        if self._reader is not self._writer:
            await self._reader.close()


def _in_transaction(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    with transaction(connection):
        return work(connection)


class _Worker:
    """A thread, and the connection that only it uses; both begin with the first use."""

    def __init__(self, path: Path | None, patience: float) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._connected = Connected(path, patience)

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="openskills-host-db")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._connected.use, work)

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._connected.close)
            thread.shutdown(wait=False)
