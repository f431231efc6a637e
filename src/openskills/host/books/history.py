"""The history of a host: one row for each invocation, for as long as it is wanted."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from openskills.errors import InvalidArgument, UnknownRun
from openskills.host.books.database import PATIENCE, Database
from openskills.host.books.history_rows import find, find_one
from openskills.host.books.history_writer import HistoryWriter
from openskills.host.books.run_record import RunRecord

KEEP_ROWS = 1_000_000
MOST_WAITING = 20_000


class History:
    """Rows of invocations in the host's database, shared by all workers. `None` keeps nothing.

    A disk that is full or read-only never fails an invocation: rows wait, and are lost when too many do, which is
    counted (`lost`) and said in the log once a minute. Rows older than `keep_days` go, and so do all but the latest
    `keep_rows`. Making one touches nothing.
    """

    def __init__(
        self,
        path: Path | None,
        keep_days: float = 30.0,
        keep_rows: int = KEEP_ROWS,
        *,
        most_waiting: int = MOST_WAITING,
        patience: float = PATIENCE,
    ) -> None:
        self._path = path
        self._database = Database(path, patience=patience)
        self._writer: HistoryWriter | None = None
        if path is not None:
            self._writer = HistoryWriter(
                path, keep_days=keep_days, keep_rows=keep_rows, most=most_waiting, patience=patience
            )

    @property
    def lost(self) -> int:
        """How many rows could not be kept."""
        return 0 if self._writer is None else self._writer.lost

    def record(self, record: RunRecord) -> None:
        """Keep a row. Returns at once; the row is on its way, and can be found some 50 ms later."""
        if self._writer is not None:
            self._writer.take(record)

    async def list(
        self, *, skill: str | None = None, failed: bool = False, since: float | None = None, limit: int = 50
    ) -> Sequence[RunRecord]:
        """The latest first, without inputs and outputs. `since` is in seconds since 1970."""
        if self._path is None or not self._path.exists():
            return ()
        return await self._database.read(
            lambda found: find(found, skill=skill, failed=failed, since=since, limit=limit)
        )

    async def show(self, run_id: str) -> RunRecord:
        """One row, by its id or an unmistakable beginning of it. Raises `UnknownRun`."""
        if self._path is None or not self._path.exists():
            raise UnknownRun(f"there is no run {run_id!r}: there is no history")
        found = await self._database.read(lambda connection: find_one(connection, run_id))
        if not found:
            raise UnknownRun(f"there is no run {run_id!r}; `openskills runs list` shows the latest", id=run_id)
        if len(found) > 1:
            raise InvalidArgument("id", f"several runs begin with {run_id!r}; write more of it")
        return found[0]

    async def close(self) -> None:
        """Write what waits, and close the file; a record after that opens it again."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.end)
        await self._database.close()
