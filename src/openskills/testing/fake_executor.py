"""`FakeExecutor`, an executor for tests: workspace files in memory, and scripted commands."""

import asyncio
import hashlib
import os
import secrets
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from openskills.arguments import check_arguments
from openskills.artifacts.store import Content
from openskills.concurrency import run_in_thread
from openskills.errors import ExecutorUnavailable, ForbiddenPath, InvalidArgument
from openskills.executors.files.descriptors import auto_close
from openskills.executors.files.globs import GlobPosition, GlobSet, compile_globs
from openskills.executors.process import HeadTailBuffer, RingBuffer
from openskills.executors.protocol import WorkspaceFileReader
from openskills.executors.spec import (
    INPUTS,
    OUT,
    RUNS,
    SKILLS,
    VENV,
    WORK,
    WRITABLE,
    Command,
    CommandResult,
    EndReason,
    FileInfo,
    Isolation,
    OutputStream,
    ProcessOutput,
    SkillSnapshot,
    TerminalSize,
    WorkspaceListing,
    WorkspaceUsage,
    check_writable_path,
    expand_path,
    normalize_path,
)
from openskills.executors.staging.snapshots import SnapshotEntryKind, check_skill_name, scan_folder
from openskills.paths import MAX_LINKS, open_inside, to_printable


@dataclass(frozen=True, slots=True)
class FakeFile:
    """A file: its bytes, and when it was put there."""

    data: bytes
    executable: bool = False
    changed: int = 0
    serial: int = 0

    def info(self, path: str) -> FileInfo:
        """What is known about it."""
        return FileInfo(path, len(self.data), (self.changed, self.serial, len(self.data)))


@dataclass(frozen=True, slots=True)
class _FakeLink:
    """A link to a place in the workspace."""

    target: str


class _FakeDirectory:
    """A directory; what is in it is known by its path."""


_TreeEntry = FakeFile | _FakeLink | _FakeDirectory


class FakeTree:
    """Files, links and directories by their paths. Its clock counts changes and marks."""

    def __init__(self) -> None:
        self._clock = 0
        self._entries: dict[str, _TreeEntry] = {path: _FakeDirectory() for path in (SKILLS, WORK, INPUTS, RUNS, OUT)}

    def write(self, path: str, data: bytes, *, executable: bool = False) -> FileInfo:
        """Put a file; a file or link there is replaced."""
        where = self._prepare_path(path)
        if isinstance(self._entries.get(where), _FakeDirectory):
            raise InvalidArgument("path", f"{path!r} is a directory")
        now = self._tick()
        file = self._entries[where] = FakeFile(data, executable, now, now)
        return file.info(check_writable_path(path))

    def link(self, path: str, target: str) -> None:
        """Put a link; it does not look whether the target exists."""
        leads_to = normalize_path(target, field="target")
        where = self._prepare_path(path)
        if isinstance(self._entries.get(where), _FakeDirectory):
            raise InvalidArgument("path", f"{path!r} is a directory")
        self._entries[where] = _FakeLink(leads_to)

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents."""
        where = normalize_path(path)
        self._make(where if where in WRITABLE else check_writable_path(path), path)

    def check_directory(self, path: str) -> None:
        """Raise `InvalidArgument` for a missing directory; `.` is the workspace itself."""
        if path != "." and not isinstance(
            self._entries.get(self._resolve(normalize_path(path, field="cwd"))), _FakeDirectory
        ):
            raise InvalidArgument("cwd", f"{path!r} does not exist")

    def remove(self, path: str) -> bool:
        """Remove what is there with all it holds; false when there is nothing."""
        directory, _, name = check_writable_path(path).rpartition("/")
        where = f"{self._resolve(directory)}/{name}"
        doomed = [entry for entry in self._entries if entry == where or entry.startswith(f"{where}/")]
        for entry in doomed:
            del self._entries[entry]
        return bool(doomed)

    def file(self, path: str) -> tuple[FakeFile, FileInfo]:
        """A file and what is known about it. Raises `InvalidArgument` when there is none."""
        where = normalize_path(path)
        entry = self._entries.get(self._resolve(where))
        if entry is None:
            raise InvalidArgument("path", f"{path!r} does not exist")
        if not isinstance(entry, FakeFile):
            raise InvalidArgument("path", f"{path!r} is not a regular file")
        return entry, entry.info(where)

    def mark(self) -> int:
        """A moment between changes."""
        return self._tick()

    def list(self, globs: Sequence[str], *, since: int | None, limit: int) -> WorkspaceListing:
        """The files that match; links that match are named."""
        wanted = compile_globs(globs)
        files = [
            entry.info(path)
            for path, entry in sorted(self._entries.items())
            if isinstance(entry, FakeFile) and wanted.matches(path) and (since is None or entry.changed >= since)
        ]
        links = (path for path, entry in sorted(self._entries.items()) if isinstance(entry, _FakeLink))
        skipped = tuple(f"{to_printable(path)} is a link" for path in links if _is_on_path(wanted, path))
        return WorkspaceListing(tuple(files[:limit]), skipped, complete=len(files) <= limit)

    def usage(self) -> WorkspaceUsage:
        """What there is, without the staged skills."""
        counted = {path: entry for path, entry in self._entries.items() if path.split("/")[0] != SKILLS}
        return WorkspaceUsage(
            sum(len(entry.data) for entry in counted.values() if isinstance(entry, FakeFile)), len(counted)
        )

    def stage(self, name: str, files: Mapping[str, FakeFile], directories: Sequence[str]) -> None:
        """Put a skill in the place of an older one; its `.venv` stays."""
        home, venv = f"{SKILLS}/{name}", f"{SKILLS}/{name}/{VENV}"
        for path in [path for path in self._entries if path == home or path.startswith(f"{home}/")]:
            if path != venv and not path.startswith(f"{venv}/"):
                del self._entries[path]
        for path in (home, venv, *(f"{home}/{one}" for one in directories)):
            self._entries.setdefault(path, _FakeDirectory())
        now = self._tick()
        for path, file in files.items():
            self._entries[f"{home}/{path}"] = FakeFile(file.data, file.executable, now, now)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _prepare_path(self, path: str) -> str:
        """Where something is to be put; the directories on the way are made."""
        directory, _, name = check_writable_path(path).rpartition("/")
        return f"{self._make(directory, path)}/{name}"

    def _make(self, directory: str, path: str) -> str:
        where = self._resolve(directory)
        if where.split("/")[0] not in WRITABLE:
            raise ForbiddenPath(f"path: {path!r} leads out of the directories {', '.join(WRITABLE)}")
        for step in _iter_prefixes(where):
            entry = self._entries.setdefault(step, _FakeDirectory())
            if not isinstance(entry, _FakeDirectory):
                raise InvalidArgument("path", f"{path!r} has a file where a directory is needed")
        return where

    def _resolve(self, path: str) -> str:
        """The path with every link on the way followed."""
        for _ in range(MAX_LINKS):
            step = next((step for step in _iter_prefixes(path) if isinstance(self._entries.get(step), _FakeLink)), None)
            if step is None:
                return path
            entry = self._entries[step]
            assert isinstance(entry, _FakeLink)  # noqa: S101  that is how it was found
            path = entry.target + path[len(step) :]
        raise ForbiddenPath(f"path: {path!r} goes through too many links")


def _iter_prefixes(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts) + 1))


def _is_on_path(globs: GlobSet, path: str) -> bool:
    """Whether a link is what a pattern asks for, or on the way to it."""
    position: GlobPosition = globs.start
    *directories, name = path.split("/")
    for directory in directories:
        position = position.descend(directory)
    return position.matches(name) or bool(position.descend(name))


_TERMINATED = 143


@check_arguments
@dataclass(frozen=True, slots=True)
class FakeRun:
    """What a command does. `files` are put into the workspace when it starts, by their paths in it.

    After each line that it is given it writes the next of the `replies` to its stdout, and ends after the last one, or
    at the end of its input. With `forever` it does not end by itself: its deadline or a kill ends it. `ending` and
    `detail` are for a run that an executor has ended, by a limit for example.
    """

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    replies: tuple[bytes, ...] = ()
    forever: bool = False
    ending: EndReason = EndReason.EXITED
    detail: str = ""
    duration_ms: int = 1


class FakeProcess:
    """Plays a `FakeRun`; implements `Process`. `written` is all input that it was given. Nothing is echoed."""

    def __init__(self, command: Command, run: FakeRun) -> None:
        loop = asyncio.get_running_loop()
        size = command.limits.output_bytes
        self._run = run
        self._replies = list(run.replies)
        self._captures = {OutputStream.STDOUT: HeadTailBuffer(size), OutputStream.STDERR: HeadTailBuffer(size)}
        interactive = command.readable or command.input_open or command.terminal is not None
        kept = tuple(OutputStream) if command.readable else (OutputStream.BOTH,) if interactive else ()
        self._rings = {stream: RingBuffer(size) for stream in kept}
        self._input = command.input_open or command.terminal is not None
        self._ended: asyncio.Future[CommandResult] = loop.create_future()
        self._more = asyncio.Event()
        self._deadline = loop.call_later(command.limits.timeout, self._on_timeout, command.limits.timeout)
        self.terminal = command.terminal
        self.written = b""
        self.id = secrets.token_hex(8)
        self._emit(OutputStream.STDOUT, run.stdout)
        self._emit(OutputStream.STDERR, run.stderr)
        self._receive(command.stdin)
        if not self._input:
            self._on_end_of_input()
        self._end_when_done()

    async def write(self, data: bytes) -> int:
        """See `Process.write`; everything is taken."""
        if self._ended.done():
            raise InvalidArgument("process", "has ended, and reads no more input")
        if not self._input:
            raise InvalidArgument("input", "is closed; start the command with its input left open")
        self._receive(data)
        self._end_when_done()
        return len(data)

    async def close_input(self) -> None:
        """See `Process.close_input`."""
        if self._input:
            self._input = self.terminal is not None
            self._on_end_of_input()
            self._end_when_done()

    async def is_waiting(self) -> bool:
        """See `Process.is_waiting`."""
        return False

    async def read(
        self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: OutputStream = OutputStream.BOTH
    ) -> ProcessOutput:
        """See `Process.read`."""
        ring = self._rings.get(stream)
        if ring is None:
            raise InvalidArgument("process", "was not started to be read while it runs; wait for its result")
        if offset < 0:
            raise InvalidArgument("offset", f"{offset} is negative")
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while wait > 0 and offset >= ring.total and not self._ended.done():
                    await self._more.wait()
        return ring.read(offset, limit, ended=self._ended.done())

    async def resize(self, rows: int, columns: int) -> None:
        """See `Process.resize`."""
        if self.terminal is None:
            raise InvalidArgument("process", "has no terminal")
        if rows < 1 or columns < 1:
            raise InvalidArgument("terminal", f"invalid size {rows} by {columns}; use one such as 24 by 80")
        self.terminal = TerminalSize(rows, columns)

    async def kill(self) -> None:
        """See `Process.kill`."""
        self._end(_TERMINATED, EndReason.KILLED, "it was ended by request")

    async def wait(self) -> CommandResult:
        """See `Process.wait`."""
        return await asyncio.shield(self._ended)

    def when_ended(self, act: Callable[["FakeProcess"], None]) -> None:
        """Call this with the process once it has ended."""
        self._ended.add_done_callback(lambda _: act(self))

    def _receive(self, data: bytes) -> None:
        self.written += data
        for _ in range(data.count(b"\n") + data.count(b"\r")):
            if self._replies:
                self._emit(OutputStream.STDOUT, self._replies.pop(0))

    def _emit(self, stream: OutputStream, data: bytes) -> None:
        captured = OutputStream.STDOUT if self.terminal else stream
        self._captures[captured].add(data)
        for one in {OutputStream.BOTH, captured} & self._rings.keys():
            self._rings[one].add(data)
        self._more.set()
        self._more = asyncio.Event()

    def _on_end_of_input(self) -> None:
        self._replies.clear()

    def _end_when_done(self) -> None:
        if not self._replies and not self._run.forever:
            self._end(self._run.exit_code, self._run.ending, self._run.detail)

    def _on_timeout(self, timeout: float) -> None:
        self._end(_TERMINATED, EndReason.TIMED_OUT, f"it did not end within {timeout:g} seconds")

    def _end(self, code: int, ending: EndReason, detail: str) -> None:
        if self._ended.done():
            return
        self._deadline.cancel()
        stdout, stderr = (capture.to_captured() for capture in self._captures.values())
        self._ended.set_result(CommandResult(code, ending, self._run.duration_ms, stdout, stderr, detail=detail))
        self._more.set()


Answers = Mapping[str, FakeRun] | Callable[[Command], FakeRun]
"""What commands do: by their command line, or asked for each."""

_CHUNK = 1024 * 1024
_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")


@check_arguments
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
        self._answer = answers if callable(answers) else _answer_from_mapping(answers or {})
        self._isolation = isolation
        self._snapshots: dict[str, _FakeSnapshot] = {}
        self._trees: dict[str, FakeTree] = {}
        self._open: dict[str, FakeWorkspace] = {}
        self.name = name
        self.commands: list[Command] = []

    async def check(self) -> Isolation:
        """What it was told to say."""
        return self._isolation

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        """See `Executor.snapshot`. The digest is the one that other executors give."""
        check_skill_name(name)
        taken = await run_in_thread(lambda: _take_snapshot(directory))
        self._snapshots[taken.digest] = taken
        size = sum(len(file.data) for file in taken.files.values())
        return SkillSnapshot(name, taken.digest, len(taken.files), size, taken.warnings)

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

    def find_snapshot(self, digest: str) -> "_FakeSnapshot":
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

    async def stage(self, snapshot: SkillSnapshot) -> None:
        """See `Workspace.stage`."""
        taken = self._executor.find_snapshot(snapshot.digest)
        self._tree.stage(check_skill_name(snapshot.name), taken.files, taken.directories)

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
    async def open(self, path: str) -> AsyncGenerator[WorkspaceFileReader]:
        """See `Workspace.open`."""
        file, info = self._tree.file(path)
        yield WorkspaceFileReader(info, _chunks(file.data))

    async def mark(self) -> int:
        """See `Workspace.mark`."""
        return self._tree.mark()

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> WorkspaceListing:
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
            self._tree.write(expand_path(path, run_dir=command.run_dir), data)
        process = FakeProcess(command, run)
        self._running.add(process)
        process.when_ended(self._running.discard)
        return process

    async def usage(self) -> WorkspaceUsage:
        """See `Workspace.usage`."""
        return self._tree.usage()

    async def close(self) -> None:
        """See `Workspace.close`."""
        self.closed = True
        for process in list(self._running):
            await process.kill()


@dataclass(frozen=True, slots=True)
class _FakeSnapshot:
    """A skill as it was at one moment."""

    digest: str
    files: Mapping[str, FakeFile]
    directories: Sequence[str]
    warnings: tuple[str, ...]


def _take_snapshot(directory: Path) -> _FakeSnapshot:
    folder = os.path.abspath(directory)
    items = scan_folder(folder)
    files: dict[str, FakeFile] = {}
    lines: list[bytes] = []
    for item in items:
        path = os.fsencode(item.path)
        if item.kind is SnapshotEntryKind.DIRECTORY:
            lines.append(b"d\0%s\0" % path)
        elif item.kind is SnapshotEntryKind.FILE:
            file = files[item.path] = _read_fake_file(folder, item.path)
            content = hashlib.sha256(file.data).hexdigest().encode()
            lines.append(b"%s\0%s\0%s\0" % (b"x" if file.executable else b"f", path, content))
    warnings = tuple(
        f"{to_printable(item.path)} {item.why}" for item in items if item.kind is SnapshotEntryKind.EXCLUDED
    )
    directories = [item.path for item in items if item.kind is SnapshotEntryKind.DIRECTORY]
    return _FakeSnapshot(hashlib.sha256(b"".join(lines)).hexdigest(), files, directories, warnings)


def _read_fake_file(folder: str, path: str) -> FakeFile:
    with auto_close(open_inside(folder, path)) as descriptor:
        executable = bool(os.fstat(descriptor).st_mode & 0o100)
        pieces: list[bytes] = []
        while piece := os.read(descriptor, _CHUNK):
            pieces.append(piece)
    return FakeFile(b"".join(pieces), executable)


def _answer_from_mapping(answers: Mapping[str, FakeRun]) -> Callable[[Command], FakeRun]:
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
