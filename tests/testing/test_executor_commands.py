"""Each promise about how commands end can be broken, and then it is said which."""

import asyncio
import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.protocol import Process
from openskills.executors.spec import Command, CommandResult, EndReason
from openskills.testing.executor_commands import ENDINGS
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


class YesOrNo(AroundProcess):
    """Knows two exit codes."""

    def ended(self, ended: CommandResult) -> CommandResult:
        return replace(ended, exit_code=min(ended.exit_code, 1))


class Negative(AroundProcess):
    """Says signals as the system does."""

    def ended(self, ended: CommandResult) -> CommandResult:
        return replace(ended, exit_code=128 - ended.exit_code if ended.exit_code > 128 else ended.exit_code)


class Forgiving(AroundWorkspace):
    """Runs something, at any rate."""

    async def start(self, command: Command) -> Process:
        try:
            return await super().start(command)
        except InvalidArgument:
            return await super().start(replace(command, argv=("true",)))


class Redirecting(AroundWorkspace):
    """Runs a command somewhere, at any rate."""

    async def start(self, command: Command) -> Process:
        try:
            return await super().start(command)
        except (ForbiddenPath, InvalidArgument):
            return await super().start(replace(command, cwd="."))


class Timeless(AroundWorkspace):
    """Knows no deadline."""

    def changed(self, command: Command) -> Command:
        return replace(command, limits=replace(command.limits, timeout=3600.0))


class Graceless(AroundWorkspace):
    """Ends commands without a word."""

    def changed(self, command: Command) -> Command:
        return replace(command, limits=replace(command.limits, grace=0.0))


class Leaving(AroundProcess):
    """Leaves something behind that has what the command had: this process, which has the lock now."""

    _held: list[int] = []  # noqa: RUF012 - one for all

    def ended(self, ended: CommandResult) -> CommandResult:
        lock = self.root / self.command.argv[-1]
        if lock.name.endswith("lock") and "ready" in ended.stdout.text():
            descriptor = os.open(lock, os.O_RDWR)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._held.append(descriptor)
        return ended

    @classmethod
    def let_go(cls) -> None:
        while cls._held:
            os.close(cls._held.pop())


class Smooth(AroundProcess):
    """Does not say that a command was ended."""

    def ended(self, ended: CommandResult) -> CommandResult:
        return replace(ended, ending=EndReason.EXITED)


class Nervous(AroundProcess):
    """Ends a command when nobody waits for it any more."""

    async def wait(self) -> CommandResult:
        try:
            return await super().wait()
        except asyncio.CancelledError:
            await self.inner.kill()
            raise


class Timekeeper(AroundProcess):
    """Has no clock."""

    def ended(self, ended: CommandResult) -> CommandResult:
        return replace(ended, duration_ms=0)


BROKEN: list[Broken] = [
    (YesOrNo, "The exit code is that of the command", "`exit 3` gives: exited, exit code 1"),
    (Negative, "A command that signal n ends has the", "`kill -9 ..` gives: exited, exit code -9"),
    (Forgiving, "A missing or not executable program", "'openskills-no-such-program' gives: exited, exit code 0"),
    (
        Redirecting,
        "A missing directory is InvalidArgument, one",
        "a command starts in 'work/none'; InvalidArgument was expected",
    ),
    (Smooth, "A timeout ends a command", "a command that is .* gives: exited, exit code"),
    (Leaving, "A timeout ends a command", "processes of a command that is .* are still running"),
    (Graceless, "A command gets SIGTERM and a grace period", "it could not: killed, exit code 137"),
    (Leaving, "A descendant that holds the pipes", "the descendant is still there"),
    (Smooth, "kill() ends a command", "a command that is ordinary gives: exited"),
    (Nervous, "A cancelled wait leaves the command running", "has ended and takes no more input"),
    (Timekeeper, "The duration is that of the command", "a command of 400 ms took 0 ms"),
]


@pytest.fixture(autouse=True)
def _let_go() -> None:  # pyright: ignore[reportUnusedFunction]
    Leaving.let_go()


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_endings_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(ENDINGS, beginning), said, in_directory(tmp_path))


def test_an_executor_without_deadlines_is_not_waited_for(tmp_path: Path) -> None:
    promise = promise_of(ENDINGS, "A timeout ends a command")
    expect_broken(Timeless, promise, "it was not kept within 3 seconds", in_directory(tmp_path), timeout=3.0)


def test_every_promise_about_endings_is_shown_to_be_breakable() -> None:
    assert not without_example(ENDINGS, BROKEN)
