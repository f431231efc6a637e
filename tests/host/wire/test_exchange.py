"""One request, on the bare protocol of the server."""

import asyncio

import pytest

from openskills.host.wire.answers import Answer
from openskills.host.wire.exchange import Exchange
from tests.host.exchanges import Sent


def test_a_trace_id_that_cannot_be_used_is_kept_as_a_fault_and_replaced() -> None:
    exchange = Sent(headers={"X-Trace-Id": "x" * 200}).exchange
    assert exchange.hostile is not None
    assert len(exchange.trace.id) == 32


def test_the_path_is_that_below_where_the_application_is_mounted() -> None:
    sent = Sent(path="/api/skills")
    sent.exchange.scope["root_path"] = "/api"
    assert sent.exchange.path == "/skills"
    assert Sent(path="/skills").exchange.path == "/skills"


def test_an_answer_is_sent_whole_and_may_end_the_connection() -> None:
    sent = Sent()
    asyncio.run(sent.exchange.answer(Answer(200, [(b"a", b"b")], b"hello"), close=True))
    assert sent.messages[0]["headers"] == [(b"a", b"b"), (b"connection", b"close")]
    assert sent.body == b"hello"
    assert sent.exchange.answered


def test_headers_are_found_by_their_name_in_lower_case() -> None:
    exchange: Exchange = Sent(headers={"Prefer": "respond-async"}).exchange
    assert exchange.header(b"prefer") == "respond-async"
    assert exchange.header(b"accept") is None
    assert exchange.latency_ms >= 0


def with_both(name: bytes, first: bytes, second: bytes) -> Exchange:
    sent = Sent()
    scope = {**sent.exchange.scope, "headers": [(name, first), (b"accept", b"*/*"), (name, second)]}
    return Exchange(scope, sent.receive, sent.send)


@pytest.mark.parametrize("name", [b"x-trace-id", b"authorization", b"content-type", b"host", b"idempotency-key"])
def test_a_header_that_says_two_things_is_a_fault(name: bytes) -> None:
    exchange = with_both(name, b"one", b"two")
    assert "twice" in str(exchange.hostile)
    assert exchange.trace.id not in {"one", "two"}
    assert with_both(name, b"one", b"one").hostile is None


def test_headers_that_are_lists_may_come_twice() -> None:
    assert with_both(b"prefer", b"respond-async", b"wait=5").hostile is None
