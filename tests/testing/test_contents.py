"""Content for checks does what it says."""

import asyncio
from collections.abc import AsyncIterable

import pytest

from openskills.sync import run
from openskills.testing.contents import ContentFailed, Waiting, failing, stream


async def pieces(content: AsyncIterable[bytes], seen: list[bytes]) -> None:
    async for piece in content:
        # One by one: what has come before a failure is what is looked at.
        seen.append(piece)  # noqa: PERF401


def test_a_stream_gives_its_pieces_in_their_order() -> None:
    seen: list[bytes] = []
    run(pieces(stream([b"a", b"", b"b"]), seen))
    assert seen == [b"a", b"", b"b"]


def test_failing_content_gives_something_first() -> None:
    seen: list[bytes] = []
    with pytest.raises(ContentFailed):
        run(pieces(failing(), seen))
    assert seen == [b"half"]


def test_waiting_content_says_when_it_has_begun_and_never_ends() -> None:
    async def check() -> list[bytes]:
        seen: list[bytes] = []
        waiting = Waiting()
        reading = asyncio.ensure_future(pieces(waiting, seen))
        await waiting.begun.wait()
        assert not reading.done()
        reading.cancel()
        await asyncio.wait([reading])
        return seen

    assert run(check()) == [b"half"]
