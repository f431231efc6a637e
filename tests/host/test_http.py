"""Results as bytes, with status and headers.

The body of a request: bounded in size and in time.

One request, on the bare protocol of the server.

What goes wrong before a skill is reached.

Who hangs up ends the work that was done for nobody else.

Server-sent events as an answer.

Trace ids: read or minted, never dangerous.
"""

import asyncio
import inspect
import json
import re
from collections.abc import AsyncGenerator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import InvalidArgument, UnsupportedMedia
from openskills.host import http
from openskills.host.client.transport import EventReader
from openskills.host.http import (
    PING,
    ClientDisconnect,
    HttpExchange,
    HttpRefusal,
    HttpResponse,
    Message,
    SseEvent,
    build_document,
    build_refusal,
    cancel_on_disconnect,
    encode_result,
    http_status,
    new_trace,
    parse_trace,
    read_body,
    response_from_result,
    send_events,
)
from openskills.host.model import Failure, InvokeResult, Outcome, failure_outcome, normalize_outcome, success_outcome
from tests.host.exchanges import GONE, Sent, part

TRACE = parse_trace(b"demo-123", None)


def result_of(outcome: Outcome) -> InvokeResult:
    return normalize_outcome(outcome, skill_id="echo", trace_id="demo-123", latency_ms=1.0, version="0.1.0")


def test_an_answer_has_the_trace_in_its_headers_and_in_its_body() -> None:
    answer = response_from_result(*encode_result(result_of(success_outcome({"a": 1}))), TRACE)
    headers = dict(answer.headers)
    assert (answer.status, headers[b"content-type"]) == (200, b"application/json")
    assert headers[b"content-length"] == str(len(answer.body)).encode()
    assert headers[b"x-trace-id"] == b"demo-123" == json.loads(answer.body)["trace_id"].encode()
    assert headers[b"traceparent"] == TRACE.here.encode()


@pytest.mark.parametrize("data", [{"a": {1}}, {"a": "\ud800"}, {1: {2: object()}}])
def test_data_that_are_not_json_make_it_a_failure(data: dict[str, object]) -> None:
    result, body = encode_result(result_of(success_outcome(data)))
    assert (result.success, result.status) == (False, 502)
    assert json.loads(body)["error"]["code"] == 502


def test_data_that_hold_themselves_make_it_a_failure() -> None:
    data: dict[str, object] = {}
    data["self"] = data
    assert encode_result(result_of(success_outcome(data)))[0].status == 502


def test_integers_beyond_64_bits_are_written_with_every_digit() -> None:
    assert json.loads(encode_result(result_of(success_outcome({"n": 2**99})))[1])["data"]["n"] == 2**99


@pytest.mark.parametrize(("code", "status"), [(400, 400), (599, 599), (42, 500), (0, 500), (200, 200), (1000, 500)])
def test_a_code_that_is_not_a_status_of_an_error_is_an_internal_error(code: int, status: int) -> None:
    assert http_status(result_of(failure_outcome(Failure(code, "x")))) == status


@pytest.mark.parametrize(("after", "header"), [(0.1, b"1"), (1.2, b"2"), (30.0, b"30")])
def test_when_to_come_back_is_reported_in_whole_seconds(after: float, header: bytes) -> None:
    assert dict(build_refusal(Failure(429, "slow down", {}, after), TRACE).headers)[b"retry-after"] == header


def test_who_has_no_key_is_told_what_kind_is_wanted() -> None:
    assert dict(build_refusal(Failure(401, "no key"), TRACE).headers)[b"www-authenticate"] == b"Bearer"


def test_a_document_is_the_data_of_a_result() -> None:
    answer = build_document({"skills": []}, TRACE, status=202)
    assert answer.status == 202
    assert json.loads(answer.body)["data"] == {"skills": []}


def test_a_body_in_one_piece_or_many_is_the_same() -> None:
    assert asyncio.run(read_body(Sent([part(b"hello")]).exchange, 10)) == b"hello"
    pieces = [part(b"he", more=True), part(b"l", more=True), part(b"lo")]
    assert asyncio.run(read_body(Sent(pieces).exchange, 10)) == b"hello"


@pytest.mark.parametrize("pieces", [[part(b"x" * 11)], [part(b"x" * 6, more=True), part(b"x" * 5, more=True)]])
async def test_a_body_that_is_too_large_is_refused(pieces: list[dict[str, object]]) -> None:
    with pytest.raises(HttpRefusal, match="the limit is 10 bytes") as found:
        await read_body(Sent(pieces).exchange, 10)
    assert found.value.failure.code == 413


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip"])
async def test_a_body_that_is_packed_is_refused(encoding: str) -> None:
    sent = Sent([part(b"hello")], headers={"Content-Encoding": encoding})
    with pytest.raises(UnsupportedMedia, match="send the body uncompressed"):
        await read_body(sent.exchange, 10)


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
async def test_one_that_only_says_that_it_is_as_it_is_is_taken(encoding: str) -> None:
    sent = Sent([part(b"hello")], headers={"Content-Encoding": encoding})
    assert await read_body(sent.exchange, 10) == b"hello"


@pytest.mark.parametrize("length", ["11", "9" * 30])
async def test_one_that_says_so_is_refused_without_a_look_at_it(length: str) -> None:
    # Nothing will ever be received here: a look would not end.
    with pytest.raises(HttpRefusal) as found:
        await read_body(Sent(headers={"Content-Length": length}).exchange, 10, timeout=1000)
    assert found.value.failure.code == 413


@pytest.mark.parametrize("length", ["-1", "ten", "1.5", ""])
async def test_a_length_that_is_not_a_number_is_refused(length: str) -> None:
    with pytest.raises(HttpRefusal) as found:
        await read_body(Sent(headers={"Content-Length": length}).exchange, 10)
    assert (found.value.failure.code, found.value.close) == (400, True)


async def test_a_body_that_does_not_come_is_given_up() -> None:
    with pytest.raises(HttpRefusal) as found:
        await read_body(Sent([part(b"he", more=True)]).exchange, 10, timeout=0.01)
    assert (found.value.failure.code, found.value.close) == (408, True)


@pytest.mark.parametrize("before", [[], [part(b"he", more=True)]])
async def test_who_hangs_up_is_gone(before: list[dict[str, object]]) -> None:
    with pytest.raises(ClientDisconnect):
        await read_body(Sent([*before, GONE]).exchange, 10)


def test_a_trace_id_that_cannot_be_used_is_kept_as_a_fault_and_replaced() -> None:
    exchange = Sent(headers={"X-Trace-Id": "x" * 200}).exchange
    assert exchange.hostile is not None
    assert len(exchange.trace.id) == 32


def test_the_path_is_that_below_where_the_application_is_mounted() -> None:
    sent = Sent(path="/api/skills")
    sent.exchange.scope["root_path"] = "/api"
    assert sent.exchange.path == "/skills"
    assert Sent(path="/skills").exchange.path == "/skills"


async def test_an_answer_is_sent_whole_and_may_end_the_connection() -> None:
    sent = Sent()
    await sent.exchange.send_response(HttpResponse(200, [(b"a", b"b")], b"hello"), close=True)
    assert sent.messages[0]["headers"] == [(b"a", b"b"), (b"connection", b"close")]
    assert sent.body == b"hello"
    assert sent.exchange.answered


def test_headers_are_found_by_their_name_in_lower_case() -> None:
    exchange: HttpExchange = Sent(headers={"Prefer": "respond-async"}).exchange
    assert exchange.header(b"prefer") == "respond-async"
    assert exchange.header(b"accept") is None
    assert exchange.latency_ms >= 0


def with_both(name: bytes, first: bytes, second: bytes) -> HttpExchange:
    sent = Sent()
    scope = {**sent.exchange.scope, "headers": [(name, first), (b"accept", b"*/*"), (name, second)]}
    return HttpExchange(scope, sent.receive, sent.send)


@pytest.mark.parametrize("name", [b"x-trace-id", b"authorization", b"content-type", b"host", b"idempotency-key"])
def test_a_header_that_says_two_things_is_a_fault(name: bytes) -> None:
    exchange = with_both(name, b"one", b"two")
    assert "different values" in str(exchange.hostile)
    assert exchange.trace.id not in {"one", "two"}
    assert with_both(name, b"one", b"one").hostile is None


def test_headers_that_are_lists_may_come_twice() -> None:
    assert with_both(b"prefer", b"respond-async", b"wait=5").hostile is None


MADE: list[Callable[[], Failure]] = [
    lambda: http.unknown_address("/" + "x" * 1000),
    lambda: http.unknown_action(":" + "x" * 1000, [":invoke"]),
    lambda: http.wrong_method("X" * 1000, ["GET"]),
    lambda: http.body_too_large(None, 10),
    lambda: http.body_too_large(11, 10),
    lambda: http.body_too_slow(1.5),
    lambda: http.bad_length("x" * 1000),
    lambda: http.invalid_request("x"),
    lambda: http.head_too_large(10),
    lambda: http.head_too_slow(20.0),
    http.host_draining,
    http.host_starting,
    lambda: http.wrong_host("x" * 1000),
    lambda: http.wrong_origin("x" * 1000),
    lambda: http.unknown_public_url("x" * 1000),
    lambda: http.unknown_part("no such tab on this page"),
    lambda: http.internal_error("t-1"),
    lambda: http.framework_error(418, "x" * 1000),
]


@pytest.mark.parametrize("make", MADE)
def test_every_fault_has_a_status_a_word_and_a_sentence_of_bounded_length(make: Callable[[], Failure]) -> None:
    failure = make()
    assert 400 <= failure.code <= 599
    assert failure.details["reason"]
    assert 10 < len(failure.message) < 400
    assert isinstance(failure.details["retryable"], bool)


def test_no_fault_is_left_out_here() -> None:
    functions = inspect.getmembers(http, inspect.isfunction)
    made = {name for name, one in functions if name[0] != "_" and one.__annotations__.get("return") is Failure}
    assert {make().details["reason"] for make in MADE}
    assert len(MADE) == len(made) + 1


def test_a_refusal_says_what_its_failure_says() -> None:
    refused = http.HttpRefusal(http.host_starting(), close=True)
    assert str(refused) == refused.failure.message


async def quick() -> str:
    return "done"


async def endless(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("cancelled")


async def test_work_that_is_quick_is_never_looked_after() -> None:
    async def never() -> Message:
        raise AssertionError("somebody looked")

    assert await cancel_on_disconnect(never, quick()) == "done"


async def test_work_that_takes_longer_has_its_result_as_well() -> None:
    assert await cancel_on_disconnect(Sent().receive, asyncio.sleep(0.1, "slept")) == "slept"


@pytest.mark.parametrize("incoming", [[GONE], [part(b""), GONE]])
async def test_when_the_caller_is_gone_the_work_is_cancelled(incoming: list[Message]) -> None:
    ended: list[str] = []
    with pytest.raises(ClientDisconnect):
        await cancel_on_disconnect(Sent(incoming).receive, endless(ended))
    assert ended == ["cancelled"]


async def test_a_cancellation_from_elsewhere_is_passed_on() -> None:
    ended: list[str] = []
    task = asyncio.create_task(cancel_on_disconnect(Sent().receive, endless(ended)))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ended == ["cancelled"]


async def test_after_the_caller_has_gone_the_task_can_go_on() -> None:
    async def go_on() -> str:
        try:
            await cancel_on_disconnect(Sent([GONE]).receive, endless([]))
        except ClientDisconnect:
            await asyncio.sleep(0)
            return "went on"
        return "stayed"

    assert await go_on() == "went on"


async def two() -> AsyncGenerator[SseEvent]:
    yield SseEvent("stdout", {"text": "a\nb\r\u2028c"}, "7")
    yield SseEvent("result", b'{"success":true}')


async def silent(closed: list[str]) -> AsyncGenerator[SseEvent]:
    try:
        await asyncio.Event().wait()
        yield SseEvent("never", {})
    finally:
        closed.append("closed")


async def test_events_can_be_read_by_a_strict_reader() -> None:
    sent = Sent()
    await send_events(sent.exchange, two())
    found = [(event.kind, event.data) for event in EventReader().feed(sent.body)]
    assert found == [("stdout", '{"text":"a\\nb\\r\u2028c"}'), ("result", '{"success":true}')]
    assert sent.body.startswith(b"id: 7\n")
    assert dict(sent.messages[0]["headers"])[b"content-type"].startswith(b"text/event-stream")
    assert sent.messages[-1] == {"type": "http.response.body", "body": b""}


async def test_who_asks_without_wanting_the_body_gets_no_events() -> None:
    sent = Sent(method="HEAD")
    await send_events(sent.exchange, two())
    assert sent.body == b""


async def test_when_nothing_happens_there_is_a_comment_and_the_events_are_waited_for_on() -> None:
    closed: list[str] = []
    sent = Sent()
    until = asyncio.Event()
    task = asyncio.create_task(send_events(sent.exchange, silent(closed), ping=0.005, until=until))
    while sent.body.count(PING) < 3:
        await asyncio.sleep(0.001)
    until.set()
    await task
    assert set(sent.body.split(b"\n\n")) == {b": ping", b""}
    assert closed == ["closed"]


async def test_what_the_events_raise_is_passed_on() -> None:
    async def broken() -> AsyncGenerator[SseEvent]:
        yield SseEvent("start", {})
        raise LookupError("gone")

    async def ask() -> str:
        try:
            await send_events(Sent().exchange, broken())
        except LookupError as error:
            return str(error)
        return ""

    assert await ask() == "gone"


PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
WELL_FORMED = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def test_without_headers_a_new_id_is_minted_each_time() -> None:
    first, second = parse_trace(None, None), new_trace()
    assert first.id != second.id
    assert re.fullmatch("[0-9a-f]{32}", first.id)
    assert first.here.split("-")[1] == first.id


def test_the_callers_id_is_kept_as_it_is() -> None:
    trace = parse_trace(b"demo-123", None)
    assert (trace.id, trace.parent) == ("demo-123", None)
    assert WELL_FORMED.fullmatch(trace.here)


def test_an_id_that_is_a_w3c_trace_id_is_the_one_in_traceparent() -> None:
    assert (
        parse_trace(b"4bf92f3577b34da6a3ce929d0e0e4736", None).here.split("-")[1] == "4bf92f3577b34da6a3ce929d0e0e4736"
    )


def test_a_traceparent_goes_on_with_a_span_of_ours_and_its_flags() -> None:
    trace = parse_trace(None, PARENT[:-1] + b"0")
    assert trace.id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert trace.here.startswith("00-4bf92f3577b34da6a3ce929d0e0e4736-")
    assert trace.here.endswith("-00")
    assert "00f067aa0ba902b7" not in trace.here


def test_with_both_headers_the_id_counts_and_the_parent_goes_on() -> None:
    trace = parse_trace(b"demo-123", PARENT)
    assert (trace.id, trace.parent) == ("demo-123", PARENT.decode())


@pytest.mark.parametrize(
    "parent",
    [
        b"",
        b"garbage",
        b"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        b"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        b"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        PARENT.upper(),
        PARENT + b"-more",
    ],
)
def test_a_malformed_traceparent_is_as_good_as_none(parent: bytes) -> None:
    assert parse_trace(b"demo", parent).parent is None


def test_a_traceparent_of_a_later_version_may_have_more_fields() -> None:
    assert parse_trace(None, b"01" + PARENT[2:] + b"-more").id == "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    "hostile", [b"a" * 129, b"a\x00b", b"a\r\nSet-Cookie: x", b"\x1b[2J", "编号".encode(), b"\x7f"]
)
def test_a_hostile_id_is_refused(hostile: bytes) -> None:
    with pytest.raises(InvalidArgument, match="X-Trace-Id: must be printable ASCII"):
        parse_trace(hostile, None)


@given(st.binary(max_size=200), st.binary(max_size=80))
def test_whatever_is_sent_what_goes_out_is_well_formed(trace_id: bytes, parent: bytes) -> None:
    try:
        trace = parse_trace(trace_id, parent)
    except InvalidArgument:
        return
    assert WELL_FORMED.fullmatch(trace.here)
    assert trace.id.isascii()
    assert trace.id.isprintable()


async def _yield_chunks(*chunks: bytes) -> AsyncGenerator[bytes]:
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize(
    ("chunks", "size", "body", "is_complete"),
    [
        ((b"abc", b"def"), 6, b"abcdef", True),
        ((b"abc", b"def"), 4, b"abcd", True),  # it has grown
        ((b"abc",), 6, b"abc", False),  # it was cut
        ((), 0, b"", True),
    ],
)
async def test_a_file_is_sent_with_its_length_and_left_incomplete_if_it_was_cut(
    chunks: tuple[bytes, ...], size: int, body: bytes, *, is_complete: bool
) -> None:
    sent = Sent(method="GET")
    await http.send_file(sent.exchange, _yield_chunks(*chunks), size, http.build_file_headers("a/b c", "text/plain"))
    headers = dict(sent.messages[0]["headers"])
    assert headers[b"content-length"] == b"%d" % size
    assert headers[b"content-disposition"] == b"attachment; filename*=UTF-8''b%20c"
    assert sent.body == body
    assert (not sent.messages[-1].get("more_body", False)) == is_complete


async def test_a_reader_that_takes_nothing_ends_the_file() -> None:
    sent = Sent(method="GET")

    async def send(message: Message) -> None:
        sent.messages.append(message)
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    sent.exchange.send = send
    await http.send_file(sent.exchange, _yield_chunks(b"abc"), 3, [], timeout=0.01)
    assert len(sent.messages) == 2


async def test_a_body_is_read_in_pieces_up_to_its_limit() -> None:
    sent = Sent([part(b"abc", more=True), part(b"", more=True), part(b"de")])
    assert [piece async for piece in http.stream_body(sent.exchange, 5)] == [b"abc", b"de"]
    for incoming, raised in (([part(b"abc", more=True), part(b"def")], HttpRefusal), ([GONE], http.ClientDisconnect)):
        with pytest.raises(raised):
            _ = [piece async for piece in http.stream_body(Sent(incoming).exchange, 5)]
    with pytest.raises(HttpRefusal, match="did not arrive"):
        _ = [piece async for piece in http.stream_body(Sent().exchange, 5, timeout=0.01)]
