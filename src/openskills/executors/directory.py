"""Workspaces in a directory of this machine: written once for `local`, `sandbox`, `landlock` and `container`.

They differ in how a command is started, which is a `Backend`'s business.
"""

import asyncio
import time
from pathlib import Path

from openskills.artifacts.threads import to_the_end
from openskills.executors.across_loops import AcrossLoops
from openskills.executors.backend import Backend, Place
from openskills.executors.directory_workspace import DirectoryWorkspace
from openskills.executors.records.leases import DAY, Lease, WorkspaceStore
from openskills.executors.records.quota import Quota
from openskills.executors.spec import Isolation, Snapshot
from openskills.executors.staging.materialising import discard_replaced
from openskills.executors.staging.snapshots import SnapshotStore
from openskills.trace import count, span

_SWEEP_EVERY = 60 * 60.0
_FORGOTTEN = 7 * DAY
SANDBOX_UIDS = (52000, 55999)
"""Below what Debian and systemd give away (from 60000), above where people are, and there in most containers, too."""


class DirectoryExecutor:
    """Workspaces below a directory of this machine, run by one backend; implements `Executor`."""

    def __init__(
        self,
        backend: Backend,
        state_dir: Path,
        *,
        quota: Quota | None = None,
        uids: tuple[int, int] | None = SANDBOX_UIDS,
        ttl: float = DAY,
    ) -> None:
        self._backend = backend
        self._quota = quota or Quota()
        self._ttl = ttl
        self._root = state_dir / "workspaces"
        self._snapshots = SnapshotStore(state_dir / "snapshots")
        self._workspaces = WorkspaceStore(self._root, self._quota, uids if backend.own_users else None)
        self._open: dict[str, DirectoryWorkspace] = {}
        self._opening = AcrossLoops()
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """How it is called in settings."""
        return self._backend.name

    async def check(self) -> Isolation:
        """See `Executor.check`."""
        return await self._backend.check()

    async def snapshot(self, name: str, directory: Path) -> Snapshot:
        """See `Executor.snapshot`."""
        return await to_the_end(lambda: self._snapshots.take(name, directory))

    async def open(self, key: str) -> DirectoryWorkspace:
        """See `Executor.open`."""
        isolation = await self._backend.check()
        self._begin_sweep()
        async with self._opening:
            workspace = self._open.get(key)
            if workspace is None or workspace.closed:
                # A process that serves many sessions must not hold what is left of those that are over.
                self._open = {other: one for other, one in self._open.items() if not one.closed}
                workspace = self._open[key] = await self._claim(key, isolation)
            return workspace

    async def remove(self, key: str) -> bool:
        """See `Executor.remove`."""
        id_ = self._workspaces.id_of(key, self.name)
        with span("workspace.cleanup", {"workspace.id": id_}) as watched:
            async with self._opening:
                workspace = self._open.pop(key, None)
                if workspace is not None:
                    await workspace.close()
                removed = await to_the_end(lambda: self._workspaces.remove(id_))
            watched.set({"workspace.removed": int(removed)})
        count("openskills.workspace.removed", int(removed))
        return removed

    async def close(self) -> None:
        """See `Executor.close`."""
        async with self._opening:
            for workspace in self._open.values():
                await workspace.close()
            self._open.clear()
        try:
            # One of another event loop ends with that, and cannot be awaited here.
            if self._sweeping is not None and self._sweeping.get_loop() is asyncio.get_running_loop():
                await self._sweeping
        finally:
            await self._backend.close()

    async def sweep(self) -> None:
        """Remove workspaces that nobody has used for longer than they live, and snapshots that nobody has asked for."""
        cleaned = await to_the_end(self._workspaces.sweep)
        count("openskills.workspace.removed", len(cleaned.removed))
        await to_the_end(lambda: self._snapshots.sweep(frozenset(), older_than=_FORGOTTEN))

    def _begin_sweep(self) -> None:
        """Once in a while, beside the first use: nobody should have to remember to do it."""
        if self._sweeping is None and _is_due(self._root / ".swept"):
            self._sweeping = asyncio.get_running_loop().create_task(self.sweep())

    async def __aenter__(self) -> "DirectoryExecutor":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _claimed(self, key: str) -> Lease:
        lease = self._workspaces.claim(key, executor=self.name, ttl=self._ttl)
        try:
            discard_replaced(lease.tree)
        except BaseException:
            lease.release()
            raise
        return lease

    async def _claim(self, key: str, isolation: Isolation) -> DirectoryWorkspace:
        lease = await to_the_end(lambda: self._claimed(key), undo=Lease.release)
        try:
            launcher = await self._backend.attach(Place(lease.id, lease.tree, lease.uid))
        except BaseException:
            lease.release()
            raise
        share = self._backend.isolates
        return DirectoryWorkspace(lease, launcher, isolation, self._snapshots, share=share, quota=self._quota)


def _is_due(marker: Path) -> bool:
    """Whether the last sweep is long ago; says that there is one now."""
    try:
        if time.time() - marker.stat().st_mtime < _SWEEP_EVERY:
            return False
    except FileNotFoundError:
        marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker.touch()
    return True
