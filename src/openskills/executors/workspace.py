"""Workspaces in a directory of this machine, shared by `local`, `sandbox`, `landlock` and `container`.

These differ in how they start a command, which is the job of a `Backend`.
"""

import asyncio
import errno
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from openskills.arguments import check_arguments
from openskills.artifacts.store import Content
from openskills.concurrency import AsyncCloseable, CrossLoopLock, read_chunks, run_in_thread, shield_until_done
from openskills.errors import ExecutorUnavailable, LimitExceeded
from openskills.executors.environment import build_environment
from openskills.executors.files.tree import WorkspaceTree
from openskills.executors.process import HostProcess, StartCounter
from openskills.executors.protocol import Backend, Launcher, WorkspaceDirectory, WorkspaceFileReader
from openskills.executors.records.leases import DAY, Lease, WorkspaceStore
from openskills.executors.records.quota import Quota, check_free_space, measure_usage, read_free_bytes
from openskills.executors.spec import (
    SKILLS,
    VENV,
    Command,
    FileInfo,
    Isolation,
    SkillSnapshot,
    WorkspaceListing,
    WorkspaceUsage,
)
from openskills.executors.staging.mount import StagedRecord, materialize_snapshot, remove_replaced
from openskills.executors.staging.snapshots import SnapshotStore
from openskills.executors.supervisor import SupervisedProcess
from openskills.executors.warm import PreloadSpec, WarmInterpreterPool
from openskills.executors.watchdog import watch
from openskills.telemetry.metrics import count
from openskills.telemetry.spans import span

_CLOSED = "the workspace is closed; open it again"
_CHECK_INTERVAL, _SHARE = 1.0, 20
_LARGE = 1024 * 1024


class DirectoryWorkspace:
    """One workspace; implements `Workspace`. It belongs to the event loop that opened it."""

    def __init__(
        self, lease: Lease, launcher: Launcher, isolation: Isolation, store: SnapshotStore, *, quota: Quota
    ) -> None:
        self._lease = lease
        self._launcher = launcher
        self._store = store
        self._quota = quota
        self.id = lease.id
        self.directory = lease.tree
        """The directory of its files on this machine."""
        self.owner = (lease.uid, lease.uid) if lease.uid is not None else None
        """The uid and gid of its commands; None if they are ours."""
        self.root = launcher.root
        self.interpreter = launcher.interpreter
        self.isolation = isolation
        self.is_closed = False
        """Whether it can no longer be used."""
        self._tree = WorkspaceTree(lease.tree, owner=self.owner)
        self._staged: dict[str, StagedRecord] = {}
        self._warm = WarmInterpreterPool(launcher)
        self._running: set[HostProcess] = set()
        self._starts = StartCounter()
        self._unused_run_dir: str | None = None
        self._next_disk_check = 0.0
        self._loop = asyncio.get_running_loop()

    async def stage(self, snapshot: SkillSnapshot) -> int:
        self._check_open()
        staged = self._staged.get(snapshot.name)
        is_here = staged is not None and staged.digest == snapshot.digest
        count("openskills.skill.stagings", cached=is_here)
        if staged is None or not is_here:
            # Unknown until staging has succeeded.
            self._staged.pop(snapshot.name, None)
            staged = self._staged[snapshot.name] = await run_in_thread(
                lambda: materialize_snapshot(
                    self._store, snapshot, self.directory, owner=self.owner, mark=self._tree.mark
                )
            )
        return staged.mark

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        self._check_open()
        if isinstance(data, bytes):
            info = await run_in_thread(lambda: self._tree.write(path, [data], executable=executable))
        else:
            with self._tree.open_writer(path, executable=executable) as writer:
                async for chunk in data:
                    await run_in_thread(lambda chunk=chunk: writer.write(chunk))
                info = await run_in_thread(writer.commit)
        if info.size > _LARGE:
            self._next_disk_check = 0.0
        return info

    async def link(self, path: str, target: str) -> None:
        self._check_open()
        self._tree.link(path, target)

    async def make_directory(self, path: str) -> None:
        self._check_open()
        self._tree.make_directory(path)

    async def remove(self, path: str) -> bool:
        self._check_open()
        self._next_disk_check = 0.0
        return await run_in_thread(lambda: self._tree.remove(path))

    @asynccontextmanager
    async def open(self, path: str) -> AsyncGenerator[WorkspaceFileReader]:
        self._check_open()
        descriptor, info = self._tree.open(path)
        try:
            yield WorkspaceFileReader(info, read_chunks(descriptor, info.size))
        finally:
            os.close(descriptor)

    async def mark(self) -> int:
        self._check_open()
        return self._tree.mark()

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> WorkspaceListing:
        self._check_open()
        small = self._tree.list_small(globs, since=since, limit=limit)
        return small or await run_in_thread(lambda: self._tree.list(globs, since=since, limit=limit))

    async def start(self, command: Command) -> HostProcess:
        self._check_open()
        # Closing the workspace waits for this block.
        with self._starts:
            await self._check_disk()
            self._check_open()
            process = await self._start_process(command)
            if self.is_closed:
                # Closed in the meantime.
                await process.kill()
                raise ExecutorUnavailable(_CLOSED)
        self._running.add(process)
        process.add_done_callback(lambda ended: self._on_process_end(ended, command.run_dir))
        return process

    async def _start_process(self, command: Command) -> HostProcess:
        launcher, tree, skill = self._launcher, self._tree, command.skill
        # Renaming an unused directory of an earlier run takes a tenth of the time of creating one.
        unused, self._unused_run_dir = self._unused_run_dir, None
        parent, _, name = command.run_dir.rpartition("/")
        if unused is None or not unused.startswith(f"{parent}/") or not tree.rename_directory(unused, name):
            tree.make_directory(command.run_dir)
        if command.cwd != command.run_dir:
            tree.check_directory(command.cwd)
        venv = skill is not None and tree.has_directory(f"{SKILLS}/{skill}/{VENV}/bin")
        if skill is not None and command.packages.node_modules is not None:
            tree.link_modules(skill, command.packages.node_modules)
        env = build_environment(launcher.root, command, path=launcher.path, home=launcher.home, venv=venv)
        path = self.directory

        def watch_process(process: SupervisedProcess) -> Awaitable[str]:
            # The pid of a warm command is that of its server or container: everything there is counted.
            pid = process.pid if launcher.visible_pids else None
            return watch(pid, command.limits, partial(measure_usage, path), self._quota, path)

        return await HostProcess.start(command, lambda stdio: self._launch(command, env, stdio), watch_process)

    def _on_process_end(self, process: HostProcess, run_dir: str) -> None:
        self._running.discard(process)
        # Keep one empty run directory for the next run, and remove the others.
        if not self.is_closed and self._tree.is_empty(run_dir):
            unused, self._unused_run_dir = self._unused_run_dir, run_dir
            if unused is not None and unused != run_dir:
                self._tree.remove(unused)

    async def usage(self) -> WorkspaceUsage:
        return await run_in_thread(lambda: measure_usage(self.directory))

    async def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True

        async def shut_down() -> None:
            try:
                # Processes of a closed loop cannot be awaited: they end with the supervisors of that loop.
                if not self._loop.is_closed():
                    await self._starts.wait_idle()
                    await asyncio.gather(*(process.kill() for process in list(self._running)))
                    await self._warm.close()
                    await self._launcher.close()
                if self._unused_run_dir is not None:
                    self._tree.remove(self._unused_run_dir)
            finally:
                self._tree.close()
                self._lease.release()

        # Even if this call is cancelled, because a second call does nothing.
        await shield_until_done(shut_down())

    async def _launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> SupervisedProcess:
        if command.warm is None:
            return await self._launcher.launch(command, env, stdio)
        staged = self._staged.get(command.skill or "")
        warmth = PreloadSpec(command.warm, staged.digest if staged is not None else "")
        return await self._warm.launch(command, env, stdio, warmth)

    def _check_open(self) -> None:
        if self.is_closed:
            raise ExecutorUnavailable(_CLOSED)

    async def _check_disk(self) -> None:
        """Raise `LimitExceeded` if the disk or the workspace is full.

        At most once per second, less often if it takes long: in between, the watchdog kills commands.
        """
        begun = time.monotonic()
        if begun < self._next_disk_check:
            return
        check_free_space(self.directory, self._quota)
        self._lease.touch()
        excess = self._quota.describe_excess(await self.usage())
        if excess:
            advice = "remove some, or raise OPENSKILL_WORKSPACE_BYTES or OPENSKILL_WORKSPACE_FILES"
            raise LimitExceeded(f"{excess}; {advice}")
        now = time.monotonic()
        self._next_disk_check = now + max(_CHECK_INTERVAL, (now - begun) * _SHARE)


_SWEEP_EVERY = 60 * 60.0
_SNAPSHOT_TTL = 7 * DAY
SANDBOX_UIDS = (52000, 55999)
"""Below the ids that Debian and systemd assign (from 60000), above those of people; mapped in most containers."""


@check_arguments
class DirectoryExecutor(AsyncCloseable):
    """Workspaces below a directory of this machine, run by one backend; implements `Executor`."""

    workspace_type = DirectoryWorkspace

    def __init__(
        self,
        backend: Backend,
        state_dir: Path,
        *,
        quota: Quota | None = None,
        uids: tuple[int, int] | None = SANDBOX_UIDS,
        ttl: float = DAY,
    ) -> None:
        self.name = backend.name
        """The name in settings."""
        self._backend = backend
        self._quota = quota or Quota()
        self._ttl = ttl
        self._root = state_dir / "workspaces"
        self._snapshots = SnapshotStore(state_dir / "snapshots")
        self._workspaces = WorkspaceStore(self._root, self._quota, uids if backend.own_users else None)
        self._open: dict[str, DirectoryWorkspace] = {}
        self._open_lock = CrossLoopLock()
        self._sweep_task: asyncio.Task[None] | None = None

    async def check(self) -> Isolation:
        return await self._backend.check()

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        return await run_in_thread(lambda: self._snapshots.take(name, directory))

    async def open(self, key: str) -> DirectoryWorkspace:
        isolation = await self._backend.check()
        if self._sweep_task is None and self._is_sweep_due():
            self._sweep_task = asyncio.get_running_loop().create_task(self.sweep())
        async with self._open_lock:
            workspace = self._open.get(key)
            if workspace is None or workspace.is_closed:
                # Do not keep closed workspaces of past sessions.
                self._open = {other: one for other, one in self._open.items() if not one.is_closed}
                workspace = self._open[key] = await self._open_workspace(key, isolation)
            return workspace

    def has_free_space(self) -> bool:
        """Whether the disk of the workspaces has room for more. Blocking."""
        return read_free_bytes(self._root.parent) >= self._quota.min_free_bytes

    def find_directory(self, key: str) -> Path:
        """The directory of the workspace of this key, which must be closed before it is changed."""
        return self._root / self._workspaces.id_from_key(key, self.name) / "tree"

    async def remove(self, key: str) -> bool:
        id_ = self._workspaces.id_from_key(key, self.name)
        with span("workspace.cleanup", {"workspace.id": id_}) as watched:
            async with self._open_lock:
                workspace = self._open.pop(key, None)
                if workspace is not None:
                    await workspace.close()
                removed = await run_in_thread(lambda: self._workspaces.remove(id_))
            watched.set({"workspace.removed": int(removed)})
        count("openskills.workspace.removed", int(removed))
        return removed

    async def close(self) -> None:
        async with self._open_lock:
            for workspace in self._open.values():
                await workspace.close()
            self._open.clear()
        try:
            # A task of another event loop cannot be awaited here.
            if self._sweep_task is not None and self._sweep_task.get_loop() is asyncio.get_running_loop():
                await self._sweep_task
        finally:
            await self._backend.close()

    async def sweep(self) -> None:
        """Remove expired workspaces, and snapshots that have not been used for a week."""
        cleaned = await run_in_thread(self._workspaces.sweep)
        count("openskills.workspace.removed", len(cleaned.removed))
        await run_in_thread(lambda: self._snapshots.sweep(frozenset(), older_than=_SNAPSHOT_TTL))

    def _is_sweep_due(self) -> bool:
        """Whether the last sweep is long ago; if so, record a new one."""
        marker = self._root / ".swept"
        try:
            if time.time() - marker.stat().st_mtime < _SWEEP_EVERY:
                return False
        except FileNotFoundError:
            marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        marker.touch()
        return True

    async def _open_workspace(self, key: str, isolation: Isolation) -> DirectoryWorkspace:
        def claim() -> Lease:
            lease = self._workspaces.claim(key, executor=self.name, ttl=self._ttl)
            try:
                remove_replaced(self._snapshots, lease.tree)
            except BaseException:
                lease.release()
                raise
            return lease

        try:
            lease = await run_in_thread(claim, undo=Lease.release)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise LimitExceeded(
                f"the disk of {self._root} is full, so the workspace cannot be opened; free some space, for example "
                "with `openskills workspaces clean`"
            ) from error
        try:
            launcher = await self._backend.attach(WorkspaceDirectory(lease.id, lease.tree, lease.uid))
        except BaseException:
            lease.release()
            raise
        return self.workspace_type(lease, launcher, isolation, self._snapshots, quota=self._quota)
