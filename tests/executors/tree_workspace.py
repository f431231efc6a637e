"""The files of a workspace behind the `Workspace` protocol, without anything that runs commands."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from openskills.artifacts.store import Content
from openskills.concurrency import run_in_thread
from openskills.errors import ExecutorUnavailable
from openskills.executors.files.tree import WorkspaceTree
from openskills.executors.protocol import Process, WorkspaceFileReader
from openskills.executors.records.leases import make_skeleton
from openskills.executors.records.quota import measure_usage
from openskills.executors.spec import Command, FileInfo, Isolation, SkillSnapshot, WorkspaceListing, WorkspaceUsage
from openskills.executors.staging.mount import materialize_snapshot
from openskills.executors.staging.snapshots import SnapshotStore

_CHUNK = 1024 * 1024


class TreeWorkspace:
    """Implements `Workspace` for tests of what is written above it. `start` always refuses."""

    id = "test"
    isolation = Isolation.NONE
    interpreter = None

    def __init__(self, directory: Path) -> None:
        self.tree = directory / "tree"
        directory.mkdir(exist_ok=True)
        make_skeleton(self.tree, None)
        self.root = str(self.tree)
        self.store = SnapshotStore(directory / "snapshots")
        self.files = WorkspaceTree(self.tree)

    async def stage(self, snapshot: SkillSnapshot) -> int:
        """See `Workspace`."""
        staging = run_in_thread(lambda: materialize_snapshot(self.store, snapshot, self.tree, mark=self.files.mark))
        return (await staging).mark

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        """See `Workspace`."""
        if isinstance(data, bytes):
            return await run_in_thread(lambda: self.files.write(path, [data], executable=executable))
        with self.files.open_writer(path, executable=executable) as arrival:
            async for chunk in data:
                await run_in_thread(lambda chunk=chunk: arrival.write(chunk))
            return await run_in_thread(arrival.commit)

    async def link(self, path: str, target: str) -> None:
        """See `Workspace`."""
        self.files.link(path, target)

    async def make_directory(self, path: str) -> None:
        """See `Workspace`."""
        self.files.make_directory(path)

    async def remove(self, path: str) -> bool:
        """See `Workspace`."""
        return await run_in_thread(lambda: self.files.remove(path))

    @asynccontextmanager
    async def open(self, path: str) -> AsyncGenerator[WorkspaceFileReader]:
        """See `Workspace`."""
        descriptor, info = self.files.open(path)
        try:
            yield WorkspaceFileReader(info, _chunks(descriptor, info.size))
        finally:
            os.close(descriptor)

    async def mark(self) -> int:
        """See `Workspace`."""
        return self.files.mark()

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> WorkspaceListing:
        """See `Workspace`."""
        return await run_in_thread(lambda: self.files.list(globs, since=since, limit=limit))

    async def start(self, command: Command) -> Process:
        """See `Workspace`."""
        raise ExecutorUnavailable(f"{command.argv} cannot run: there are only files here")

    async def usage(self) -> WorkspaceUsage:
        """See `Workspace`."""
        return await run_in_thread(lambda: measure_usage(self.tree))

    async def close(self) -> None:
        """See `Workspace`."""
        self.files.close()


async def _chunks(descriptor: int, size: int) -> AsyncIterator[bytes]:
    left = size
    while left > 0:
        wanted = min(left, _CHUNK)
        data = await run_in_thread(lambda wanted=wanted: os.read(descriptor, wanted))
        if not data:
            return
        left -= len(data)
        yield data
