"""`FakeExecutor`, an executor for tests: real workspace files in a temporary directory, and scripted commands."""

import asyncio
import shlex
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from openskills.arguments import check_arguments
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.process import CapturedProcess
from openskills.executors.protocol import WorkspaceDirectory
from openskills.executors.spec import (
    Command,
    CommandResult,
    EndReason,
    Isolation,
    OutputStream,
    TerminalSize,
    expand_path,
)
from openskills.executors.workspace import DirectoryExecutor, DirectoryWorkspace

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


class FakeProcess(CapturedProcess):
    """Plays a `FakeRun`; implements `Process`. `written` is all input that it was given. Nothing is echoed."""

    def __init__(self, command: Command, run: FakeRun) -> None:
        super().__init__(command)
        self._run = run
        self._replies = list(run.replies)
        self._input = command.input_open or command.terminal is not None
        timeout = command.limits.timeout
        detail = f"it did not end within {timeout:g} seconds"
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(timeout, self._end, _TERMINATED, EndReason.TIMED_OUT, detail)
        self.terminal = command.terminal
        self.written = b""
        self._emit(OutputStream.STDOUT, run.stdout)
        self._emit(OutputStream.STDERR, run.stderr)
        self._receive(command.stdin)
        if not self._input:
            self._replies.clear()
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
        if self._input:
            self._input = self.terminal is not None
            self._replies.clear()
            self._end_when_done()

    async def is_waiting(self) -> bool:
        return False

    async def resize(self, rows: int, columns: int) -> None:
        if self.terminal is None:
            raise InvalidArgument("process", "has no terminal")
        if rows < 1 or columns < 1:
            raise InvalidArgument("terminal", f"invalid size {rows} by {columns}; use one such as 24 by 80")
        self.terminal = TerminalSize(rows, columns)

    async def kill(self) -> None:
        self._end(_TERMINATED, EndReason.KILLED, "it was ended by request")

    def _receive(self, data: bytes) -> None:
        self.written += data
        for _ in range(data.count(b"\n") + data.count(b"\r")):
            if self._replies:
                self._emit(OutputStream.STDOUT, self._replies.pop(0))

    def _emit(self, stream: OutputStream, data: bytes) -> None:
        self._add_output(OutputStream.STDOUT if self.terminal else stream, data)

    def _end_when_done(self) -> None:
        if not self._replies and not self._run.forever:
            self._end(self._run.exit_code, self._run.ending, self._run.detail)

    def _end(self, code: int, ending: EndReason, detail: str) -> None:
        if self._ended.done():
            return
        self._deadline.cancel()
        stdout, stderr = (capture.to_captured() for capture in self._captures.values())
        self._ended.set_result(CommandResult(code, ending, self._run.duration_ms, stdout, stderr, detail=detail))
        self._wake_readers()


Answers = Mapping[str, FakeRun] | Callable[[Command], FakeRun]
"""What commands do: by their command line, or asked for each."""

_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")


class FakeBackend:
    """Answers commands instead of running them; implements `Backend` and `Launcher`."""

    own_users = visible_pids = False
    interpreter = None
    root, home, path = "/workspace", "/home", ()

    def __init__(self, answer: Callable[[Command], FakeRun], isolation: Isolation, name: str) -> None:
        self._answer = answer
        self._isolation = isolation
        self.name = name
        self.commands: list[Command] = []

    async def check(self) -> Isolation:
        """What it was told to say."""
        return self._isolation

    async def attach(self, place: WorkspaceDirectory) -> "FakeBackend":
        del place
        return self

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> Any:  # noqa: ARG002
        """Refuse to start a process."""
        raise ExecutorUnavailable("a fake executor starts no processes")

    def answer(self, command: Command) -> FakeRun:
        """Note the command, and say what it does."""
        run = self._answer(command)
        self.commands.append(command)
        return run

    async def close(self) -> None:
        """Does nothing."""


class FakeWorkspace(DirectoryWorkspace):
    """A workspace whose commands are answered; implements `Workspace`."""

    async def start(self, command: Command) -> Any:
        self._check_open()
        self._tree.make_directory(command.run_dir)
        self._tree.check_directory(command.cwd)
        run = cast("FakeBackend", self._launcher).answer(command)
        for path, data in run.files.items():
            self._tree.write(expand_path(path, run_dir=command.run_dir), [data])
        process = cast("Any", FakeProcess(command, run))
        self._running.add(process)
        process.add_done_callback(self._running.discard)
        return process


@check_arguments
class FakeExecutor(DirectoryExecutor):
    """Implements `Executor` without processes, with workspaces in a temporary directory that is removed with it.

    `answers` says what a command does: a mapping from its command line (`python3 scripts/run.py`; for `bash -c TEXT`
    the text), or a function, which may raise what `Workspace.start` raises. A command without an answer is a program
    that does not exist. `commands` are those that were started, in their order. It isolates nothing, and says whatever
    isolation it is told to say.
    """

    workspace_type = FakeWorkspace

    def __init__(
        self, answers: Answers | None = None, *, isolation: Isolation = Isolation.NONE, name: str = "fake"
    ) -> None:
        directory = tempfile.mkdtemp(prefix="openskills-fake-")
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        backend = FakeBackend(answers if callable(answers) else _answer_from_mapping(answers or {}), isolation, name)
        super().__init__(backend, Path(directory))
        self.commands = backend.commands


def _answer_from_mapping(answers: Mapping[str, FakeRun]) -> Callable[[Command], FakeRun]:
    """The answer of a command line."""

    def answer(command: Command) -> FakeRun:
        argv, line = command.argv, shlex.join(command.argv)
        is_shell = len(argv) == 3 and argv[0] in _SHELLS and argv[1] in ("-c", "-lc")
        run = answers.get(line) or answers.get(argv[2] if is_shell else "")
        if run is None:
            known = ", ".join(map(repr, answers)) or "none"
            raise InvalidArgument("command", f"{line!r} has no answer; there are {known}")
        return run

    return answer
