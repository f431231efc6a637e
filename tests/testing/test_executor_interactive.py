"""Each promise about running commands can be broken, and then it is said which."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.spec import Output, Stream
from openskills.testing.executor_interactive import INTERACTIVE
from tests.testing.around import (
    AroundProcess,
    Broken,
    Part,
    expect_broken,
    in_directory,
    promise_of,
    without_example,
)


class Refusing(AroundProcess):
    """Takes no input."""

    async def write(self, data: bytes) -> int:  # noqa: ARG002
        return 0


class Stuttering(AroundProcess):
    """Gives the last byte again."""

    async def read(self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: Stream = Stream.BOTH) -> Output:
        return await super().read(max(offset - 1, 0), wait=wait, limit=limit, stream=stream)


class Hurried(AroundProcess):
    """Waits for nothing."""

    async def read(self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: Stream = Stream.BOTH) -> Output:  # noqa: ARG002
        return await super().read(offset, limit=limit, stream=stream)


class Smooth(AroundProcess):
    """Does not say what is missing."""

    async def read(self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: Stream = Stream.BOTH) -> Output:
        return replace(await super().read(offset, wait=wait, limit=limit, stream=stream), missed=0)


class Mixed(AroundProcess):
    """Has one stream."""

    async def read(self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: Stream = Stream.BOTH) -> Output:  # noqa: ARG002
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


BROKEN: list[Broken] = [
    (Refusing, "A command is answered while it runs", "three letters are not taken at once"),
    (Stuttering, "Output is read by byte offset", "it gave what is at"),
    (Hurried, "A read gives what is there", "whoever waits for a byte does not get it"),
    (Smooth, "Of a long output the last part is kept", "from 0 on there is 0 missed before"),
    (Mixed, "Where it was asked for, each stream", "stdout and stderr are"),
    (Boundless, "Who does not read is given no more than fits", "bytes were taken by a command that does not read"),
    (Silent, "Nothing can be written to a closed input", "can be written after the input was closed"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_running_commands_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(INTERACTIVE, beginning), said, in_directory(tmp_path))


def test_every_promise_about_running_commands_is_shown_to_be_breakable() -> None:
    assert not without_example(INTERACTIVE, BROKEN)
