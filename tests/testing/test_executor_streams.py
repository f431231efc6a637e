"""Each promise about streams can be broken, and then it is said which."""

from dataclasses import replace
from pathlib import Path

import pytest

from openskills.executors.spec import Captured, Command, Ended
from openskills.testing.executor_streams import STREAMS
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


class Deaf(AroundProcess):
    """Drops stderr."""

    def ended(self, ended: Ended) -> Ended:
        return replace(ended, stderr=Captured())


class TextOnly(AroundProcess):
    """Thinks that everything is text."""

    def ended(self, ended: Ended) -> Ended:
        return replace(ended, stdout=Captured(ended.stdout.text().encode()))


class Impatient(AroundWorkspace):
    """Gives a command the first megabyte of its input."""

    def changed(self, command: Command) -> Command:
        return replace(command, stdin=command.stdin[: 1024 * 1024])


class HeadOnly(AroundProcess):
    """Keeps the beginning."""

    def ended(self, ended: Ended) -> Ended:
        return replace(ended, stdout=Captured(ended.stdout.head, b"", ended.stdout.cut + len(ended.stdout.tail)))


class Hoarding(AroundWorkspace):
    """Keeps as much as it likes."""

    def changed(self, command: Command) -> Command:
        return replace(command, limits=replace(command.limits, output_bytes=1_000_000))


class Hasty(AroundProcess):
    """Does not wait for the last words."""

    def ended(self, ended: Ended) -> Ended:
        return replace(ended, stdout=Captured(ended.stdout.bytes()[:-5]))


BROKEN: list[Broken] = [
    (Deaf, "Both streams are captured", "captured are .b'out.nout again.n', b''"),
    (TextOnly, "Bytes go in and come out unchanged", "256 bytes, .* came back as 512"),
    (Impatient, "Megabytes of input arrive whole", "3145728 bytes arrived as other ones"),
    (HeadOnly, "Of too much output its head and its tail are kept", "their tail is …b''"),
    (Hoarding, "Output without end is kept within bounds", "bytes 1000000 were kept"),
    (Hasty, "What a command writes last", "stdout lacks it"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_streams_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(STREAMS, beginning), said, in_directory(tmp_path))


def test_every_promise_about_streams_is_shown_to_be_breakable() -> None:
    assert not without_example(STREAMS, BROKEN)
