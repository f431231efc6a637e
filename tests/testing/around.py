"""Executors that are like another one, but for what a subclass changes: to show that each check can fail."""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from openskills.artifacts.store import Content
from openskills.executors.local import LocalBackend
from openskills.executors.protocol import Executor, Process, Workspace, WorkspaceFileReader
from openskills.executors.spec import (
    Command,
    CommandResult,
    FileInfo,
    Isolation,
    OutputStream,
    ProcessOutput,
    SkillSnapshot,
    WorkspaceListing,
    WorkspaceUsage,
)
from openskills.executors.workspace import DirectoryExecutor
from openskills.sync import run
from openskills.testing.checks import Promise
from openskills.testing.executor import check_promises
from openskills.testing.fake_executor import FakeExecutor


class AroundProcess:
    """A process that is another one."""

    def __init__(self, inner: Process, command: Command, root: Path) -> None:
        self.inner = inner
        self.command = command
        self.root = root

    @property
    def id(self) -> str:
        return self.inner.id

    async def write(self, data: bytes) -> int:
        return await self.inner.write(data)

    async def close_input(self) -> None:
        await self.inner.close_input()

    async def is_waiting(self) -> bool:
        return await self.inner.is_waiting()

    async def read(
        self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: OutputStream = OutputStream.BOTH
    ) -> ProcessOutput:
        return await self.inner.read(offset, wait=wait, limit=limit, stream=stream)

    async def resize(self, rows: int, columns: int) -> None:
        await self.inner.resize(rows, columns)

    async def kill(self) -> None:
        await self.inner.kill()

    async def wait(self) -> CommandResult:
        return self.ended(await self.inner.wait())

    def ended(self, ended: CommandResult) -> CommandResult:
        """The result, as it is told."""
        return ended


class AroundWorkspace:
    """A workspace that is another one. `process` is what its processes are."""

    process: type[AroundProcess] = AroundProcess

    def __init__(self, inner: Workspace, executor: "AroundExecutor", key: str) -> None:
        self.inner = inner
        self.executor = executor
        self.key = key

    @property
    def id(self) -> str:
        return self.inner.id

    @property
    def root(self) -> str:
        return self.inner.root

    @property
    def isolation(self) -> Isolation:
        return self.executor.isolation or self.inner.isolation

    @property
    def interpreter(self) -> str | None:
        return self.inner.interpreter

    async def stage(self, snapshot: SkillSnapshot) -> int:
        return await self.inner.stage(snapshot)

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        return await self.inner.write(path, data, executable=executable)

    async def link(self, path: str, target: str) -> None:
        await self.inner.link(path, target)

    async def make_directory(self, path: str) -> None:
        await self.inner.make_directory(path)

    async def remove(self, path: str) -> bool:
        return await self.inner.remove(path)

    def open(self, path: str) -> AbstractAsyncContextManager[WorkspaceFileReader]:
        return self.inner.open(path)

    async def mark(self) -> int:
        return await self.inner.mark()

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> WorkspaceListing:
        return await self.inner.list(globs, since=since, limit=limit)

    async def start(self, command: Command) -> Process:
        return self.process(await self.inner.start(self.changed(command)), command, Path(self.root))

    def changed(self, command: Command) -> Command:
        """The command that is really started."""
        return command

    async def usage(self) -> WorkspaceUsage:
        return await self.inner.usage()

    async def close(self) -> None:
        await self.inner.close()


class AroundExecutor:
    """An executor that is another one. `workspace` is what its workspaces are, `isolation` what it says of itself."""

    workspace: type[AroundWorkspace] = AroundWorkspace
    isolation: Isolation | None = None

    def __init__(self, inner: Executor) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    async def check(self) -> Isolation:
        return self.isolation or await self.inner.check()

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        return await self.inner.snapshot(name, directory)

    async def open(self, key: str) -> Workspace:
        return self.workspace(await self.inner.open(key), self, key)

    async def remove(self, key: str) -> bool:
        return await self.inner.remove(key)

    async def close(self) -> None:
        await self.inner.close()


Part = type[AroundExecutor] | type[AroundWorkspace] | type[AroundProcess]
"""What of an executor is broken."""
Broken = tuple[Part, str, str]
"""A part that is broken, how the promise begins that it breaks, and what is said about it."""


def executor_with(part: Part, inner: Executor) -> AroundExecutor:
    """An executor of which this part is another one."""
    if issubclass(part, AroundExecutor):
        return part(inner)
    workspace = part if issubclass(part, AroundWorkspace) else type("_", (AroundWorkspace,), {"process": part})
    return type("_", (AroundExecutor,), {"workspace": workspace})(inner)


def in_memory() -> Executor:
    """A good executor that needs nothing."""
    return FakeExecutor()


def in_directory(directory: Path) -> Callable[[], Executor]:
    """Makes good executors that run commands."""
    return lambda: DirectoryExecutor(LocalBackend(), directory)


def promise_of(promises: Iterable[Promise], beginning: str) -> Promise:
    """The one promise that begins so."""
    (found,) = [promise for promise in promises if (promise.__doc__ or "").startswith(beginning)]
    return found


def expect_broken(
    part: Part, promise: Promise, said: str, make: Callable[[], Executor], *, timeout: float = 60.0
) -> None:
    """The check of a promise says that it is broken, and how; or an error of the executor says what was checked."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - what it says is looked at below
        run(check_promises(lambda: executor_with(part, make()), [promise], timeout=timeout))
    told = " ".join([*getattr(raised.value, "__notes__", ()), str(raised.value)])
    promised = re.escape((promise.__doc__ or "").strip())
    assert re.match(f"(broken promise|while checking the promise): {promised} .*(?:{said})", told, re.DOTALL), told


def without_example(promises: Iterable[Promise], broken: Iterable[Broken]) -> list[str]:
    """The promises that no broken executor is shown to break."""
    shown = {promise_of(promises, beginning) for _, beginning, _ in broken}
    return [promise.__doc__ or "" for promise in promises if promise not in shown]
