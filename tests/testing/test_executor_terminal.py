"""Each promise about terminals can be broken, and then it is said which."""

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.executors.spec import Command, Ended, Terminal
from openskills.testing.executor_terminal import CTRL_C, CTRL_Z, TERMINAL
from openskills.testing.trial import read_until
from tests.testing.around import (
    AroundProcess,
    AroundWorkspace,
    Broken,
    Part,
    expect_broken,
    in_directory,
    promise_of,
    without_example,
)


class OneSize(AroundWorkspace):
    """Has one size for all."""

    def changed(self, command: Command) -> Command:
        return replace(command, terminal=Terminal() if command.terminal else None)


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

    def ended(self, ended: Ended) -> Ended:
        if self.command.terminal:
            self.lock = os.open(self.root / "work" / "lock", os.O_RDWR)
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return ended


class Answering(AroundProcess):
    """Plays the terminal."""

    async def wait(self) -> Ended:
        await read_until(self.inner, b"\x1b[6n")
        await self.inner.write(b"\x1b[1;1R")
        return await super().wait()


BROKEN: list[Broken] = [
    (OneSize, "A terminal has the size that it was given", "33 rows and 101 columns were asked for"),
    (Pipes, "A terminal has one stream", "waited for b'error typed"),
    (Abrupt, "Ctrl-C ends the command in the foreground", "typed b.*x03echo.* and read b''"),
    (Abrupt, "Ctrl-Z stops the command in the foreground", "typed b'.x1a'.* and read b''"),
    (HangingUp, "close_input() is Ctrl-D", "after Ctrl-D: killed"),
    (Leaving, "kill() ends a shell on a terminal", "its jobs are still there"),
    (Answering, "Nobody answers when a command asks", "it was answered"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_terminals_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(TERMINAL, beginning), said, in_directory(tmp_path))


def test_every_promise_about_terminals_is_shown_to_be_breakable() -> None:
    assert not without_example(TERMINAL, BROKEN)
