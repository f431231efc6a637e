"""Content arrives in pieces of a good size, and never more of it than allowed."""

from collections.abc import AsyncGenerator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.artifacts.content import PIECE, pieces
from openskills.artifacts.store import Content
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.sync import run


class Source:
    """Pieces of content that count how many were asked for."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.chunks = chunks
        self.given = 0

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        for chunk in self.chunks:
            self.given += 1
            yield chunk


async def all_of(data: Content, limit: int = 10**9) -> list[bytes]:
    return [piece async for piece in pieces(data, limit=limit)]


def test_bytes_are_one_piece() -> None:
    assert run(all_of(b"abc")) == [b"abc"]


def test_nothing_is_no_piece() -> None:
    assert run(all_of(b"")) == []
    assert run(all_of(Source([b"", b""]))) == []


def test_small_chunks_are_gathered_and_large_ones_are_not_copied() -> None:
    large = b"x" * PIECE
    gathered = run(all_of(Source([b"a" * 1000] * 2500)))
    assert [len(piece) for piece in gathered] == [1_049_000, 1_049_000, 402_000]
    assert run(all_of(Source([large, large])))[1] is large


@given(st.lists(st.binary(max_size=30), max_size=20))
def test_gathering_changes_nothing(chunks: list[bytes]) -> None:
    assert b"".join(run(all_of(Source(chunks)))) == b"".join(chunks)


def test_content_of_exactly_the_limit_is_taken() -> None:
    assert run(all_of(Source([b"12", b"34"]), limit=4)) == [b"1234"]


def test_content_beyond_the_limit_is_not_read_to_its_end() -> None:
    source = Source([b"12"] * 1000)
    with pytest.raises(
        LimitExceeded, match="an artifact of 6 or more bytes is too large: this store takes 4 per"
    ) as raised:
        run(all_of(source, limit=4))
    assert source.given == 3
    assert raised.value.details == {"limit": 4, "size": 6}


def test_bytes_beyond_the_limit_are_refused_with_their_size() -> None:
    with pytest.raises(LimitExceeded, match="an artifact of 1,000 bytes is too large"):
        run(all_of(b"x" * 1000, limit=4))


@pytest.mark.parametrize("data", ["text", None, 3, [b"x"], bytearray(b"x")])
def test_what_is_not_bytes_is_refused_with_its_type(data: object) -> None:
    with pytest.raises(InvalidArgument, match=f"data: is {type(data).__name__}; an artifact is made of bytes or"):
        run(all_of(data))  # pyright: ignore[reportArgumentType]


def test_a_piece_of_text_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="data: is str; an artifact is made of bytes in every piece"):
        run(all_of(Source([b"x", "y"])))  # pyright: ignore[reportArgumentType]
