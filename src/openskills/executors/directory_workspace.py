"""One workspace in a directory of this machine: its files, its staged skills, its running commands."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from openskills.artifacts.store import Content
from openskills.artifacts.threads import to_the_end, unbroken
from openskills.errors import ExecutorUnavailable, LimitExceeded
from openskills.executors.backend import Launcher
from openskills.executors.files.tree import Tree
from openskills.executors.layout import SKILLS, VENV
from openskills.executors.processes.keeping import Kept
from openskills.executors.processes.process import HostProcess, Watch
from openskills.executors.processes.starts import Starts
from openskills.executors.processes.warm import WarmInterpreters, Warmth
from openskills.executors.processes.watchdog import watch
from openskills.executors.protocol import FileReading
from openskills.executors.records.leases import Lease
from openskills.executors.records.quota import Quota, check_free, free_bytes, measured
from openskills.executors.rules.environment import command_environment
from openskills.executors.spec import Command, FileInfo, Isolation, Listing, Snapshot, Usage
from openskills.executors.staging.materialising import materialise
from openskills.executors.staging.snapshots import SnapshotStore
from openskills.trace import count

_CHUNK = 1024 * 1024
_CLOSED = "the workspace is closed; open it again"
_LOOK_AGAIN, _SHARE = 1.0, 20
_LARGE = 1024 * 1024


class DirectoryWorkspace:
    """One workspace; implements `Workspace`. It belongs to the event loop in which it was opened."""

    def __init__(
        self,
        lease: Lease,
        launcher: Launcher,
        isolation: Isolation,
        store: SnapshotStore,
        *,
        share: bool,
        quota: Quota,
    ) -> None:
        self._lease = lease
        self._launcher = launcher
        self._store = store
        self._share = share
        self._quota = quota
        self._owner = (lease.uid, lease.uid) if lease.uid is not None else None
        self._tree = Tree(lease.tree, owner=self._owner)
        self._staged: dict[str, str] = {}
        self._warm = WarmInterpreters(launcher)
        self._running: set[HostProcess] = set()
        self._starts = Starts()
        self._unused_run_dir: str | None = None
        self._look_again = 0.0
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self.isolation = isolation

    @property
    def id(self) -> str:
        """Names it in its executor."""
        return self._lease.id

    @property
    def root(self) -> str:
        """The workspace as its commands see it."""
        return self._launcher.root

    @property
    def closed(self) -> bool:
        """Whether nothing more can be done with it."""
        return self._closed

    async def stage(self, snapshot: Snapshot) -> None:
        """See `Workspace.stage`."""
        self._check_open()
        is_here = self._staged.get(snapshot.name) == snapshot.digest
        count("openskills.skill.stagings", cached=is_here)
        if not is_here:
            # Until it is known what is there.
            self._staged.pop(snapshot.name, None)
            await to_the_end(
                lambda: materialise(self._store, snapshot, self._lease.tree, share=self._share, owner=self._owner)
            )
            self._staged[snapshot.name] = snapshot.digest

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        """See `Workspace.write`."""
        self._check_open()
        info = await self._written(path, data, executable=executable)
        if info.size > _LARGE:
            self._look_again = 0.0
        return info

    async def link(self, path: str, target: str) -> None:
        """See `Workspace.link`."""
        self._check_open()
        self._tree.link(path, target)

    async def make_directory(self, path: str) -> None:
        """See `Workspace.make_directory`."""
        self._check_open()
        self._tree.make_directory(path)

    async def remove(self, path: str) -> bool:
        """See `Workspace.remove`."""
        self._check_open()
        self._look_again = 0.0
        return await to_the_end(lambda: self._tree.remove(path))

    @asynccontextmanager
    async def open(self, path: str) -> AsyncGenerator[FileReading]:
        """See `Workspace.open`."""
        self._check_open()
        descriptor, info = self._tree.open(path)
        try:
            yield FileReading(info, _chunks(descriptor, info.size))
        finally:
            os.close(descriptor)

    async def mark(self) -> int:
        """See `Workspace.mark`."""
        self._check_open()
        return self._tree.mark()

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> Listing:
        """See `Workspace.list`."""
        self._check_open()
        small = self._tree.list_small(globs, since=since, limit=limit)
        return small or await to_the_end(lambda: self._tree.list(globs, since=since, limit=limit))

    async def start(self, command: Command) -> HostProcess:
        """See `Workspace.start`."""
        self._check_open()
        # Whoever closes the workspace waits for us.
        with self._starts:
            await self._look_at_the_disk()
            self._check_open()
            process = await self._begun(command)
            if self._closed:
                # Closed meanwhile: nobody else knows of this one.
                await process.kill()
                raise ExecutorUnavailable(_CLOSED)
        self._running.add(process)
        process.when_ended(lambda ended: self._forget(ended, command.run_dir))
        return process

    async def usage(self) -> Usage:
        """See `Workspace.usage`."""
        return await to_the_end(lambda: measured(self._lease.tree))

    async def close(self) -> None:
        """See `Workspace.close`."""
        if self._closed:
            return
        self._closed = True
        # Nobody can try again: who is cancelled meanwhile has to wait until others can have it.
        await unbroken(self._end())

    async def _end(self) -> None:
        try:
            # What belonged to a loop that was closed cannot be awaited: it ends with the keepers of that loop.
            if not self._loop.is_closed():
                await self._starts.over()
                await asyncio.gather(*(process.kill() for process in list(self._running)))
                await self._warm.close()
                await self._launcher.close()
            if self._unused_run_dir is not None:
                self._tree.remove(self._unused_run_dir)
        finally:
            self._tree.close()
            self._lease.release()

    async def _begun(self, command: Command) -> HostProcess:
        self._make_run_dir(command.run_dir)
        if command.cwd != command.run_dir:
            self._tree.check_directory(command.cwd)
        launcher = self._launcher
        env = command_environment(
            launcher.root, command, path=launcher.path, home=launcher.home, venv=self._has_venv(command.skill)
        )
        return await HostProcess.begin(command, lambda stdio: self._launch(command, env, stdio), self._watch(command))

    async def _written(self, path: str, data: Content, *, executable: bool) -> FileInfo:
        if isinstance(data, bytes):
            return await to_the_end(lambda: self._tree.write(path, [data], executable=executable))
        with self._tree.arriving(path, executable=executable) as arriving:
            async for chunk in data:
                await to_the_end(lambda chunk=chunk: arriving.write(chunk))
            return await to_the_end(arriving.commit)

    async def _launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> Kept:
        if command.warm is None:
            return await self._launcher.launch(command, env, stdio)
        warmth = Warmth(command.warm, self._staged.get(command.skill or "", ""))
        started = await self._warm.launch(command, env, stdio, warmth)
        if started.reason:
            count("openskills.run.cold_starts")
            started.kept.notes.append(f"started cold: {started.reason}")
        return started.kept

    def _has_venv(self, skill: str | None) -> bool:
        return skill is not None and self._tree.has_directory(f"{SKILLS}/{skill}/{VENV}/bin")

    def _forget(self, process: HostProcess, run_dir: str) -> None:
        self._running.discard(process)
        # A directory for every run that ever was would be all that an old workspace consists of.
        if not self._closed and self._tree.is_empty(run_dir):
            unused, self._unused_run_dir = self._unused_run_dir, run_dir
            if unused is not None and unused != run_dir:
                self._tree.remove(unused)

    def _check_open(self) -> None:
        if self._closed:
            raise ExecutorUnavailable(_CLOSED)

    async def _look_at_the_disk(self) -> None:
        """Raise `LimitExceeded` when the disk or the workspace is full.

        Once in a second is often enough, and less often when it takes long: in between the watchdog ends commands.
        """
        begun = time.monotonic()
        if begun < self._look_again:
            return
        check_free(self._lease.tree, self._quota)
        self._lease.touch()
        said = self._quota.passed(await to_the_end(lambda: measured(self._lease.tree)))
        if said:
            raise LimitExceeded(f"{said}; remove some, or raise OPENSKILL_WORKSPACE_BYTES or OPENSKILL_WORKSPACE_FILES")
        now = time.monotonic()
        self._look_again = now + max(_LOOK_AGAIN, (now - begun) * _SHARE)

    def _make_run_dir(self, run_dir: str) -> None:
        """Give the run its directory: one that an earlier run has not used, under a new name, costs a tenth."""
        unused, self._unused_run_dir = self._unused_run_dir, None
        parent, _, name = run_dir.rpartition("/")
        if unused is None or not unused.startswith(f"{parent}/") or not self._tree.rename_directory(unused, name):
            self._tree.make_directory(run_dir)

    def _watch(self, command: Command) -> Watch:
        tree = self._lease.tree
        known = self._launcher.visible_pids
        # Of a warm command the pid is that of its server, or of what contains it: all that runs there is counted.
        return lambda kept: watch(
            kept.pid if known else None,
            command.limits,
            lambda: measured(tree),
            self._quota,
            free=lambda: free_bytes(tree),
        )


async def _chunks(descriptor: int, size: int) -> AsyncIterator[bytes]:
    left = size
    while left > 0:
        data = await to_the_end(lambda: os.read(descriptor, min(left, _CHUNK)))  # noqa: B023 - awaited at once
        if not data:
            return
        left -= len(data)
        yield data
