"""Each promise about isolation is broken by an executor that only says that it isolates.

Each promise about running commands can be broken, and then it is said which.

Each promise about terminals can be broken, and then it is said which.
"""

import fcntl
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.spec import Command, CommandResult, Isolation, OutputStream, ProcessOutput, TerminalSize
from openskills.testing.checks import read_until
from openskills.testing.executor import check_executor
from openskills.testing.executor_isolation import CTRL_C, CTRL_Z, INTERACTIVE, ISOLATION, TERMINAL
from tests.testing.around import (
    AroundExecutor,
    AroundProcess,
    AroundWorkspace,
    Broken,
    Part,
    expect_broken,
    in_directory,
    promise_of,
    without_example,
)


class Boasting(AroundExecutor):
    """Says that it is a sandbox."""

    isolation = Isolation.BUBBLEWRAP


BROKEN: list[Broken] = [
    (Boasting, "A command cannot write outside of its workspace", "a command reads a file outside of its workspace"),
    (Boasting, "A command cannot change or replace a", "a command can do this to a skill: .*append"),
    (Boasting, "A skill cannot get at the secrets of another", "do this to another one: reads the variables"),
    (Boasting, "A command finds nothing of this process", "a command reads a file of this process through .*/proc/"),
    (Boasting, "Without allowed hosts, a command reaches", "it reached .'tcp', 'abstract', 'path'."),
    (Boasting, "A command is not root", "its user and group ids|new privileges"),
    (Boasting, "A command cannot leave a program", "set-group-id bits: .*created"),
]


@pytest.mark.parametrize(("beginning", "said"), [row[1:] for row in BROKEN])
def test_an_executor_that_breaks_a_promise_about_isolation_is_told_which(
    beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(Boasting, promise_of(ISOLATION, beginning), said, in_directory(tmp_path))


def test_looking_for_files_of_this_process_takes_nothing_out_of_its_pipes(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"meant for us")
        beginning = "A command finds nothing of this process"
        expect_broken(Boasting, promise_of(ISOLATION, beginning), "a command reads a file", in_directory(tmp_path))
        os.close(writing)
        writing = -1
        assert os.read(reading, 100) == b"meant for us"
    finally:
        for descriptor in (reading, writing):
            if descriptor >= 0:
                os.close(descriptor)


def test_every_promise_about_isolation_is_shown_to_be_breakable() -> None:
    assert not without_example(ISOLATION, BROKEN)


async def test_who_does_not_say_that_it_isolates_is_not_held_to_it(tmp_path: Path) -> None:
    await check_executor(in_directory(tmp_path), groups=["isolation"])


class Refusing(AroundProcess):
    """Takes no input."""

    async def write(self, data: bytes) -> int:  # noqa: ARG002
        return 0


class Stuttering(AroundProcess):
    """Gives the last byte again."""

    async def read(
        self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: OutputStream = OutputStream.BOTH
    ) -> ProcessOutput:
        return await super().read(max(offset - 1, 0), wait=wait, limit=limit, stream=stream)


class Hurried(AroundProcess):
    """Waits for nothing."""

    async def read(
        self,
        offset: int,
        *,
        wait: float = 0.0,  # noqa: ARG002
        limit: int = 65536,
        stream: OutputStream = OutputStream.BOTH,
    ) -> ProcessOutput:
        return await super().read(offset, limit=limit, stream=stream)


class Smooth(AroundProcess):
    """Does not say what is missing."""

    async def read(
        self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: OutputStream = OutputStream.BOTH
    ) -> ProcessOutput:
        return replace(await super().read(offset, wait=wait, limit=limit, stream=stream), missed=0)


class Mixed(AroundProcess):
    """Has one stream."""

    async def read(
        self,
        offset: int,
        *,
        wait: float = 0.0,
        limit: int = 65536,
        stream: OutputStream = OutputStream.BOTH,  # noqa: ARG002
    ) -> ProcessOutput:
        return await super().read(offset, wait=wait, limit=limit)


class Boundless(AroundProcess):
    """Takes everything, and loses it."""

    async def write(self, data: bytes) -> int:
        await super().write(data)
        return len(data)


class Silent(AroundProcess):
    """Does not say that nobody reads."""

    async def write(self, data: bytes) -> int:
        with suppress(InvalidArgument):
            return await super().write(data)
        return len(data)


EXECUTOR_INTERACTIVE_BROKEN: list[Broken] = [
    (Refusing, "A command can be talked to while", "three letters are not taken at once"),
    (Stuttering, "Output is read by byte offset", "it gave what is at"),
    (Hurried, "A read returns what is available,", "a read that waits for output does not return the byte"),
    (Smooth, "Of long output the last part is kept; the", "from 0 on there is 0 missed before"),
    (Mixed, "If requested, each stream can be read", "stdout and stderr are"),
    (
        Boundless,
        "If a command does not read, write() takes only what",
        "bytes were taken by a command that does not read",
    ),
    (Silent, "Nothing can be written to a closed input", "can be written after the input was closed"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), EXECUTOR_INTERACTIVE_BROKEN)
def test_an_executor_that_breaks_a_promise_about_running_commands_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(INTERACTIVE, beginning), said, in_directory(tmp_path))


def test_every_promise_about_running_commands_is_shown_to_be_breakable() -> None:
    assert not without_example(INTERACTIVE, EXECUTOR_INTERACTIVE_BROKEN)


class OneSize(AroundWorkspace):
    """Has one size for all."""

    def changed(self, command: Command) -> Command:
        return replace(command, terminal=TerminalSize() if command.terminal else None)


class Pipes(AroundWorkspace):
    """Has no terminals."""

    def changed(self, command: Command) -> Command:
        return replace(command, terminal=None, input_open=command.terminal is not None)


class Abrupt(AroundProcess):
    """Ends everything at a key press."""

    async def write(self, data: bytes) -> int:
        if data[:1] in (CTRL_C, CTRL_Z):
            await self.kill()
            return len(data)
        return await super().write(data)


class HangingUp(AroundProcess):
    """Takes the end of input for the end of all."""

    async def close_input(self) -> None:
        await self.kill()


class Leaving(AroundProcess):
    """Leaves something behind that has what the jobs had: this process, which has the lock now."""

    def ended(self, ended: CommandResult) -> CommandResult:
        if self.command.terminal:
            self.lock = os.open(self.root / "work" / "lock", os.O_RDWR)
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return ended


class Answering(AroundProcess):
    """Plays the terminal."""

    async def wait(self) -> CommandResult:
        await read_until(self.inner, b"\x1b[6n")
        await self.inner.write(b"\x1b[1;1R")
        return await super().wait()


EXECUTOR_TERMINAL_BROKEN: list[Broken] = [
    (OneSize, "A terminal has the size that it was given", "33 rows and 101 columns were asked for"),
    (Pipes, "A terminal has one stream", "waited for b'error typed"),
    (Abrupt, "Ctrl-C ends the command in the foreground", "typed b.*x03echo.* and read b''"),
    (Abrupt, "Ctrl-Z stops the command in the foreground", "typed b'.x1a'.* and read b''"),
    (HangingUp, "close_input() is Ctrl-D", "after Ctrl-D: killed"),
    (Leaving, "kill() ends a shell on a terminal", "its jobs are still there"),
    (Answering, "Nobody answers when a command asks", "it was answered"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), EXECUTOR_TERMINAL_BROKEN)
def test_an_executor_that_breaks_a_promise_about_terminals_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(TERMINAL, beginning), said, in_directory(tmp_path))


def test_every_promise_about_terminals_is_shown_to_be_breakable() -> None:
    assert not without_example(TERMINAL, EXECUTOR_TERMINAL_BROKEN)
