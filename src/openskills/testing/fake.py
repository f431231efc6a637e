"""An executor for tests of what stands above executors: real files in memory, and commands that are only told."""

import hashlib
import os
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from openskills.artifacts.store import Content
from openskills.artifacts.threads import to_the_end
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.files.openat2 import opened
from openskills.executors.layout import expanded
from openskills.executors.protocol import FileReading
from openskills.executors.spec import Command, FileInfo, Isolation, Listing, Snapshot, Usage
from openskills.executors.staging.snapshots import checked_skill_name
from openskills.executors.staging.survey import Kind, survey
from openskills.paths import open_inside, printable
from openskills.testing.fake_files import FakeFile, FakeTree
from openskills.testing.fake_process import FakeProcess, FakeRun

Answers = Mapping[str, FakeRun] | Callable[[Command], FakeRun]
"""What commands do: by their command line, or asked for each."""

_CHUNK = 1024 * 1024
_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")


class FakeExecutor:
    """Implements `Executor` without a process and without a disk.

    `answers` says what a command does: a mapping from its command line (`python3 scripts/run.py`; for `bash -c TEXT`
    the text), or a function, which may raise what `Workspace.start` raises. A command without an answer is a program
    that does not exist. `commands` are those that were started, in their order. Files, patterns, marks and staging are
    as in a real workspace; it isolates nothing, and says whatever isolation it is told to say.
    """

    def __init__(
        self, answers: Answers | None = None, *, isolation: Isolation = Isolation.NONE, name: str = "fake"
    ) -> None:
        self._answer = answers if callable(answers) else _told(answers or {})
        self._isolation = isolation
        self._snapshots: dict[str, _Taken] = {}
        self._trees: dict[str, FakeTree] = {}
        self._open: dict[str, FakeWorkspace] = {}
        self.name = name
        self.commands: list[Command] = []

    async def check(self) -> Isolation:
        """What it was told to say."""
        return self._isolation

    async def snapshot(self, name: str, directory: Path) -> Snapshot:
        """See `Executor.snapshot`. The digest is the one that other executors give."""
        checked_skill_name(name)
        taken = await to_the_end(lambda: _take(directory))
        self._snapshots[taken.digest] = taken
        size = sum(len(file.data) for file in taken.files.values())
        return Snapshot(name, taken.digest, len(taken.files), size, taken.warnings)

    async def open(self, key: str) -> "FakeWorkspace":
        """See `Executor.open`."""
        workspace = self._open.get(key)
        if workspace is None or workspace.closed:
            tree = self._trees.setdefault(key, FakeTree())
            workspace = self._open[key] = FakeWorkspace(self, _id_of(key), tree, self._isolation)
        return workspace

    async def remove(self, key: str) -> bool:
        """See `Executor.remove`."""
        workspace = self._open.pop(key, None)
        if workspace is not None:
            await workspace.close()
        return self._trees.pop(key, None) is not None

    async def close(self) -> None:
        """See `Executor.close`."""
        for workspace in self._open.values():
            await workspace.close()
        self._open.clear()

    def taken(self, digest: str) -> "_Taken":
        """A skill of the store."""
        if digest not in self._snapshots:
            raise InvalidArgument("snapshot", f"{digest[:80]!r} is not in the store; take it first")
        return self._snapshots[digest]

    def answer(self, command: Command) -> FakeRun:
        """Note the command, and say what it does."""
        run = self._answer(command)
        self.commands.append(command)
        return run

    async def __aenter__(self) -> "FakeExecutor":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class FakeWorkspace:
    """A workspace in memory; implements `Workspace`. `FakeExecutor.open` makes it."""

    root = "/workspace"

    def __init__(self, executor: FakeExecutor, id_: str, tree: FakeTree, isolation: Isolation) -> None:
        self._executor = executor
        self._tree = tree
        self._running: set[FakeProcess] = set()
        self.closed = False
        self.id = id_
        self.isolation = isolation

    async def stage(self, snapshot: Snapshot) -> None:
        """See `Workspace.stage`."""
        taken = self._executor.taken(snapshot.digest)
        self._tree.stage(checked_skill_name(snapshot.name), taken.files, taken.directories)

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        """See `Workspace.write`."""
        whole = data if isinstance(data, bytes) else b"".join([chunk async for chunk in data])
        return self._tree.write(path, whole, executable=executable)

    async def link(self, path: str, target: str) -> None:
        """See `Workspace.link`."""
        self._tree.link(path, target)

    async def make_directory(self, path: str) -> None:
        """See `Workspace.make_directory`."""
        self._tree.make_directory(path)

    async def remove(self, path: str) -> bool:
        """See `Workspace.remove`."""
        return self._tree.remove(path)

    @asynccontextmanager
    async def open(self, path: str) -> AsyncGenerator[FileReading]:
        """See `Workspace.open`."""
        file, info = self._tree.file(path)
        yield FileReading(info, _chunks(file.data))

    async def mark(self) -> int:
        """See `Workspace.mark`."""
        return self._tree.mark()

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> Listing:
        """See `Workspace.list`."""
        return self._tree.list(globs, since=since, limit=limit)

    async def start(self, command: Command) -> FakeProcess:
        """See `Workspace.start`."""
        if self.closed:
            raise ExecutorUnavailable("the workspace is closed; open it again")
        self._tree.make_directory(command.run_dir)
        self._tree.check_directory(command.cwd)
        run = self._executor.answer(command)
        for path, data in run.files.items():
            self._tree.write(expanded(path, run_dir=command.run_dir), data)
        process = FakeProcess(command, run)
        self._running.add(process)
        process.when_ended(self._running.discard)
        return process

    async def usage(self) -> Usage:
        """See `Workspace.usage`."""
        return self._tree.usage()

    async def close(self) -> None:
        """See `Workspace.close`."""
        self.closed = True
        for process in list(self._running):
            await process.kill()


@dataclass(frozen=True, slots=True)
class _Taken:
    """A skill as it was at one moment."""

    digest: str
    files: Mapping[str, FakeFile]
    directories: Sequence[str]
    warnings: tuple[str, ...]


def _take(directory: Path) -> _Taken:
    folder = os.path.abspath(directory)
    items = survey(folder)
    files: dict[str, FakeFile] = {}
    lines: list[bytes] = []
    for item in items:
        path = os.fsencode(item.path)
        if item.kind is Kind.DIRECTORY:
            lines.append(b"d\0%s\0" % path)
        elif item.kind is Kind.FILE:
            file = files[item.path] = _read(folder, item.path)
            content = hashlib.sha256(file.data).hexdigest().encode()
            lines.append(b"%s\0%s\0%s\0" % (b"x" if file.executable else b"f", path, content))
    warnings = tuple(f"{printable(item.path)} {item.why}" for item in items if item.kind is Kind.LEFT_OUT)
    directories = [item.path for item in items if item.kind is Kind.DIRECTORY]
    return _Taken(hashlib.sha256(b"".join(lines)).hexdigest(), files, directories, warnings)


def _read(folder: str, path: str) -> FakeFile:
    with opened(open_inside(folder, path)) as descriptor:
        executable = bool(os.fstat(descriptor).st_mode & 0o100)
        pieces: list[bytes] = []
        while piece := os.read(descriptor, _CHUNK):
            pieces.append(piece)
    return FakeFile(b"".join(pieces), executable)


def _told(answers: Mapping[str, FakeRun]) -> Callable[[Command], FakeRun]:
    """The answer of a command line."""

    def answer(command: Command) -> FakeRun:
        line = shlex.join(command.argv)
        run = answers.get(line) or answers.get(_shell_text(command))
        if run is None:
            known = ", ".join(map(repr, answers)) or "none"
            raise InvalidArgument("command", f"{line!r} has no answer; there are {known}")
        return run

    return answer


def _id_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _shell_text(command: Command) -> str:
    argv = command.argv
    is_shell = len(argv) == 3 and argv[0] in _SHELLS and argv[1] in ("-c", "-lc")
    return argv[2] if is_shell else ""


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), _CHUNK):
        yield data[start : start + _CHUNK]
