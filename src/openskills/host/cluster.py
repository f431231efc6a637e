"""The state of the nodes of a Ray cluster and of the hosts that share a database, for operators and `/metrics`."""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from openskills.errors import ExecutorUnavailable, InvalidArgument, SkillError
from openskills.executors.open import is_ray, open_executor
from openskills.host.database import Database
from openskills.host.workers import list_workers
from openskills.settings import Settings

if TYPE_CHECKING:
    from openskills.executors.ray.executor import RayExecutor

_CACHE_SECONDS = 1.0
_STALE_SECONDS = 15.0
_TIMEOUT = 10.0
_WARN_INTERVAL = 60.0
_log = logging.getLogger("openskills.host")


class ClusterMonitor:
    """Reads the state of the nodes and hosts. Nothing is connected before the first use.

    `worker` is the id of this process among the workers of all hosts, if there are several.
    """

    def __init__(self, settings: Settings, database: Database, worker: str | None) -> None:
        self._settings = settings
        self._database = database
        self._worker = worker
        self._executor: RayExecutor | None = None
        self._reading: asyncio.Task[Mapping[str, Any]] | None = None
        self._latest: Mapping[str, Any] = {}
        self._read_at = self._failed_at = self._warned_at = -_WARN_INTERVAL

    @property
    def has_nodes(self) -> bool:
        """Whether commands run in a Ray cluster."""
        return is_ray(self._settings.executor)

    @property
    def is_used(self) -> bool:
        """Whether there is something to show: a Ray cluster, or a database that hosts share."""
        return self.has_nodes or self._database.is_shared

    async def read_nodes(self) -> Mapping[str, Any] | None:
        """The report of the cluster (`RayExecutor.status`); None if commands do not run in one.

        Raises `ExecutorUnavailable` if it does not answer within ten seconds, and `MissingExtra`.
        """
        if not self.has_nodes:
            return None
        return await self._wait(self._start_reading())

    async def read_hosts(self) -> list[dict[str, Any]] | None:
        """The workers of all hosts with their last heartbeats; None without PostgreSQL. Raises `StoreUnavailable`."""
        if not self._database.is_shared:
            return None
        return [{**one, "is_this": one["id"] == self._worker} for one in await self._database.read(list_workers)]

    async def drain(self, node: str, *, is_draining: bool) -> Mapping[str, Any]:
        """See `RayExecutor.drain`. Also raises `InvalidArgument` if commands do not run in a cluster."""
        if not self.has_nodes:
            raise InvalidArgument("node", "the executor of this host is not `ray`; set OPENSKILL_EXECUTOR=ray")
        # The first use connects; that is not done twice at a time.
        await self._wait(self._start_reading())
        return await self._open().drain(node, is_draining=is_draining)

    def get_latest(self) -> Mapping[str, Any] | None:
        """The last report without waiting, empty if there is none of the last 15 seconds; None without a cluster.

        If it is older than a second, a new one is requested for the next time.
        """
        if not self.has_nodes:
            return None
        now = time.monotonic()
        if now - max(self._read_at, self._failed_at) > _CACHE_SECONDS:
            self._start_reading()
        return self._latest if now - self._read_at < _STALE_SECONDS else {}

    async def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError, SkillError):
                await self._reading
        if self._executor is not None:
            await self._executor.close()

    def _open(self) -> "RayExecutor":
        if self._executor is None:
            self._executor = cast("RayExecutor", open_executor(self._settings.executor, self._settings))
        return self._executor

    def _start_reading(self) -> "asyncio.Task[Mapping[str, Any]]":
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read())
            # Nobody may be waiting for it.
            self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._reading

    async def _read(self) -> Mapping[str, Any]:
        try:
            # Importing Ray takes a second or two.
            executor = await asyncio.to_thread(self._open)
            self._latest = await executor.status()
        except SkillError as error:
            self._failed_at = time.monotonic()
            if self._failed_at - self._warned_at > _WARN_INTERVAL:
                self._warned_at = self._failed_at
                _log.warning("cannot read the state of the cluster: %s", error.message)
            raise
        self._read_at = time.monotonic()
        return self._latest

    async def _wait(self, reading: "asyncio.Task[Mapping[str, Any]]") -> Mapping[str, Any]:
        # Not cancelled at the end of the time: a connection in a thread cannot be.
        await asyncio.wait([reading], timeout=_TIMEOUT)
        if not reading.done():
            raise ExecutorUnavailable(f"the Ray cluster did not answer within {_TIMEOUT:g} s; see `ray status`")
        return reading.result()
