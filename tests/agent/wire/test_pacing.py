"""Silence is bounded; a slow reader is none."""

import asyncio
from collections.abc import AsyncGenerator

import httpx2
import pytest

from openskills.agent.wire.pacing import Paced, TimeLimits
from openskills.errors import InvalidArgument

SOON = 0.02


class Source(httpx2.AsyncByteStream):
    """Pieces, with silence for ever before the one with the number `silent`."""

    def __init__(self, *pieces: bytes, silent: int = -1) -> None:
        self.pieces = pieces
        self.silent = silent
        self.closed = False

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        for number, piece in enumerate(self.pieces):
            if number == self.silent:
                await asyncio.Event().wait()
            yield piece

    async def aclose(self) -> None:
        self.closed = True


def read(source: Source, limits: TimeLimits, reader: float = 0) -> tuple[list[bytes], Paced]:
    async def all_of_it() -> tuple[list[bytes], Paced]:
        paced = Paced(source, limits, asyncio.get_running_loop().time() + limits.first)
        found: list[bytes] = []
        async for piece in paced:
            found.append(piece)
            await asyncio.sleep(reader)
        await paced.aclose()
        return found, paced

    return asyncio.run(all_of_it())


def test_what_comes_in_time_is_read_to_its_end() -> None:
    source = Source(b"a", b"b")
    assert read(source, TimeLimits())[0] == [b"a", b"b"]
    assert source.closed


@pytest.mark.parametrize("limits", [TimeLimits(first=SOON), TimeLimits(first=60, between=SOON)])
def test_silence_for_longer_than_agreed_ends_it(limits: TimeLimits) -> None:
    with pytest.raises(httpx2.ReadTimeout):
        read(Source(b"a", b"b", silent=0 if limits.first == SOON else 1), limits)


def test_a_reader_who_takes_his_time_is_no_silence() -> None:
    assert read(Source(b"a", b"b", b"c"), TimeLimits(between=SOON), reader=2 * SOON)[0] == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("pieces", "done"),
    [
        ((b"data: {}\n\n", b"data: [DONE]\n\n"), True),
        ((b"data: [DO", b"NE]\n\n"), True),
        ((b"data: {}\n\n",), False),
        ((b"data: [DONE]\n\n", b"x" * 100), False),
    ],
)
def test_the_last_word_of_a_server_is_noticed(pieces: tuple[bytes, ...], done: bool) -> None:
    assert read(Source(*pieces), TimeLimits())[1].said_done is done


def test_an_answer_that_does_not_end_is_not_kept_in_memory() -> None:
    async def read_on() -> None:
        async for _ in Paced(Source(b"abc", b"de"), TimeLimits(), asyncio.get_running_loop().time() + 5, most=4):
            pass

    with pytest.raises(httpx2.ReadError, match="does not end"):
        asyncio.run(read_on())


def test_no_time_at_all_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidArgument, match=r"limits\.between: is not more than 0"):
        TimeLimits(between=0)
    with pytest.raises(InvalidArgument, match=r"limits\.connect"):
        TimeLimits(connect=float("nan"))


def test_the_client_is_told_the_longest_of_the_limits() -> None:
    timeout = TimeLimits(connect=3, first=5, between=7).for_client()
    assert (timeout.connect, timeout.read, timeout.write, timeout.pool) == (3, 7, 7, 3)
