"""The body of a request: bounded in size and in time."""

import asyncio

import pytest

from openskills.errors import UnsupportedMedia
from openskills.host.wire.bodies import Gone, read_body
from openskills.host.wire.faults import Refused
from tests.host.exchanges import GONE, Sent, part


def test_a_body_in_one_piece_or_many_is_the_same() -> None:
    assert asyncio.run(read_body(Sent([part(b"hello")]).exchange, 10)) == b"hello"
    pieces = [part(b"he", more=True), part(b"l", more=True), part(b"lo")]
    assert asyncio.run(read_body(Sent(pieces).exchange, 10)) == b"hello"


@pytest.mark.parametrize("pieces", [[part(b"x" * 11)], [part(b"x" * 6, more=True), part(b"x" * 5, more=True)]])
def test_a_body_that_is_too_large_is_refused(pieces: list[dict[str, object]]) -> None:
    with pytest.raises(Refused, match="10 bytes are the most") as found:
        asyncio.run(read_body(Sent(pieces).exchange, 10))
    assert found.value.failure.code == 413


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip"])
def test_a_body_that_is_packed_is_refused(encoding: str) -> None:
    sent = Sent([part(b"hello")], headers={"Content-Encoding": encoding})
    with pytest.raises(UnsupportedMedia, match="without Content-Encoding"):
        asyncio.run(read_body(sent.exchange, 10))


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
def test_one_that_only_says_that_it_is_as_it_is_is_taken(encoding: str) -> None:
    sent = Sent([part(b"hello")], headers={"Content-Encoding": encoding})
    assert asyncio.run(read_body(sent.exchange, 10)) == b"hello"


@pytest.mark.parametrize("length", ["11", "9" * 30])
def test_one_that_says_so_is_refused_without_a_look_at_it(length: str) -> None:
    # Nothing will ever be received here: a look would not end.
    with pytest.raises(Refused) as found:
        asyncio.run(read_body(Sent(headers={"Content-Length": length}).exchange, 10, seconds=1000))
    assert found.value.failure.code == 413


@pytest.mark.parametrize("length", ["-1", "ten", "1.5", ""])
def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    with pytest.raises(Refused) as found:
        asyncio.run(read_body(Sent(headers={"Content-Length": length}).exchange, 10))
    assert (found.value.failure.code, found.value.close) == (400, True)


def test_a_body_that_does_not_come_is_given_up() -> None:
    with pytest.raises(Refused) as found:
        asyncio.run(read_body(Sent([part(b"he", more=True)]).exchange, 10, seconds=0.01))
    assert (found.value.failure.code, found.value.close) == (408, True)


@pytest.mark.parametrize("before", [[], [part(b"he", more=True)]])
def test_who_hangs_up_is_gone(before: list[dict[str, object]]) -> None:
    with pytest.raises(Gone):
        asyncio.run(read_body(Sent([*before, GONE]).exchange, 10))
