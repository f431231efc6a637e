"""Each promise about limits can be broken, and then it is said which."""

from dataclasses import replace
from pathlib import Path

import pytest

from openskills.executors.protocol import Executor
from openskills.executors.spec import Command, Isolation, Limits
from openskills.testing.executor_limits import LIMITS
from tests.testing.around import (
    AroundExecutor,
    AroundWorkspace,
    Broken,
    Part,
    expect_broken,
    in_directory,
    promise_of,
    without_example,
)


class Generous(AroundWorkspace):
    """Knows no limit but a short deadline."""

    def changed(self, command: Command) -> Command:
        return replace(command, limits=Limits(timeout=3.0, memory_bytes=None))


class Same(AroundWorkspace):
    """Keeps to the first limits that it hears of."""

    limits: Limits | None = None

    def changed(self, command: Command) -> Command:
        self.limits = self.limits or command.limits
        return replace(command, limits=self.limits)


class Boasting(AroundExecutor):
    """Says that it is a sandbox."""

    isolation = Isolation.BUBBLEWRAP

    def __init__(self, inner: Executor) -> None:
        super().__init__(inner)


BROKEN: list[Broken] = [
    (Generous, "A process has at most `open_files`", "with a limit of 40 it opened '1000'"),
    (Generous, "No file becomes larger", "a command wrote 4 MiB with a limit of 1 MiB"),
    (Generous, "A process has at most `memory_bytes`", "300 MiB, with a limit of 128 MiB"),
    (Generous, "A process that has used `cpu_seconds`", "a limit of 1 second: timed_out"),
    (Boasting, "Where commands have a user of their own", "with a limit of 20 it started '100'"),
    (Same, "The limits of one command", "with a limit of 200, after a command with 40, it opened 3"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_limits_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(LIMITS, beginning), said, in_directory(tmp_path))


def test_every_promise_about_limits_is_shown_to_be_breakable() -> None:
    assert not without_example(LIMITS, BROKEN)
