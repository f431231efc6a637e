"""HTTP against a server that misbehaves: bounded in time and size, and nothing is sent twice that must not be.

What is a Normalized Skill Result, and what is not.

Addresses, headers and bodies that nothing in them can bend.

Who may ask again, and when.

Bytes to events, in whatever pieces they come.
"""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.agent.models.http import RetryPolicy
from openskills.errors import BadSkillOutput, DeadlineExceeded, HostUnavailable, InvalidArgument, LimitExceeded
from openskills.host.client.transport import (
    MAX_EXCERPT,
    ClientLimits,
    ClientRequest,
    ClientResponse,
    ClientTransport,
    EventReader,
    InvalidResult,
    ServerEvent,
    SkillFailed,
    bearer_header,
    check_header_value,
    check_object,
    encode_body,
    excerpt,
    is_json_response,
    is_local_url,
    parse_base_url,
    pause_after_failure,
    pause_after_response,
    read_json,
    read_result,
    result_from_dict,
    run_path,
    skill_path,
    unwrap,
)
from openskills.host.model import Failure, failure_outcome, normalize_outcome, success_outcome
from openskills.sync import run
from tests.host.scripted_server import Reply, Scripted, as_json, failure, normal, scripted

T = TypeVar("T")

QUICK = ClientLimits(answer_bytes=100_000, silence=0.2, retries=RetryPolicy(attempts=3, pause=0.01, longest_pause=0.05))
SLOW = ClientLimits(retries=RetryPolicy(pause=60.0, longest_pause=60.0))
POST = ClientRequest("POST", "/x", content=b"{}")
KEYED = ClientRequest("POST", "/x", {"Idempotency-Key": "k"}, b"{}", repeatable=True)


def new_transport(url: str, limits: ClientLimits = QUICK) -> ClientTransport:
    return ClientTransport(url, {"Authorization": "Bearer k"}, limits, named="OPENSKILL_HTTP_BASE_URL")


@asynccontextmanager
async def connect(url: str, limits: ClientLimits = QUICK) -> AsyncGenerator[ClientTransport]:
    connection = new_transport(url, limits)
    try:
        yield connection
    finally:
        await connection.close()


async def fetch(
    url: str, ask: ClientRequest = POST, seconds: float | None = None, limits: ClientLimits = QUICK
) -> ClientResponse[bytes]:
    async with connect(url, limits) as connection:
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        return await connection.fetch(ask, deadline)


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def test_an_answer_has_its_status_headers_and_bytes(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"a", b"b"], 418, headers={"X-Some": "thing"}))
    answer = await fetch(scripted_host.url)
    assert (answer.status, answer.headers["x-some"], answer.body) == (418, "thing", b"ab")
    (request,) = scripted_host.requests
    assert (request.body, request.headers["authorization"]) == (b"{}", "Bearer k")
    assert request.headers["user-agent"].startswith("openskills/")


async def test_an_unreachable_host_is_an_error_with_the_variable_and_the_command() -> None:
    with pytest.raises(HostUnavailable) as caught:
        await fetch(f"http://127.0.0.1:{unused_port()}")
    assert "OPENSKILL_HTTP_BASE_URL" in str(caught.value)
    assert "openskills serve" in str(caught.value)
    assert "(Connection refused)" in str(caught.value)
    assert caught.value.details["attempts"] == 3


async def test_a_host_that_comes_up_meanwhile_is_found() -> None:
    port = unused_port()
    patient = ClientLimits(retries=RetryPolicy(attempts=50, pause=0.02, longest_pause=0.02))
    async with connect(f"http://127.0.0.1:{port}", patient) as connection:
        asked = asyncio.ensure_future(connection.fetch(POST, None))
        await asyncio.sleep(0)
        with scripted(port) as server:
            server.on("POST /x", as_json({}))
            assert (await asked).status == 200


async def test_a_pause_beyond_the_deadline_is_not_begun_when_nobody_is_there() -> None:
    with pytest.raises(HostUnavailable) as caught:
        await fetch(f"http://127.0.0.1:{unused_port()}", seconds=10, limits=SLOW)
    assert caught.value.details["attempts"] == 1


async def test_a_busy_host_is_asked_again_when_it_says_so(scripted_host: Scripted) -> None:
    busy = failure(429, "later", Retry_After="0")
    scripted_host.on("POST /x", busy, busy, as_json(normal()))
    assert (await fetch(scripted_host.url)).status == 200
    assert len(scripted_host.requests) == 3


async def test_a_host_that_stays_busy_has_the_last_word(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", failure(503, "later", Retry_After="0"))
    assert (await fetch(scripted_host.url)).status == 503
    assert len(scripted_host.requests) == 3


async def test_a_pause_beyond_the_deadline_is_not_begun(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", failure(429, "later", Retry_After="20"))
    assert (await fetch(scripted_host.url, seconds=10)).status == 429
    assert len(scripted_host.requests) == 1


async def test_a_gateway_is_asked_once_without_an_idempotency_key(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"<html>"], 502, "text/html"), as_json(normal()))
    assert (await fetch(scripted_host.url)).status == 502
    assert len(scripted_host.requests) == 1


async def test_a_gateway_is_asked_again_with_one(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"<html>"], 502, "text/html"), as_json(normal()))
    assert (await fetch(scripted_host.url, KEYED)).status == 200
    assert [request.headers["idempotency-key"] for request in scripted_host.requests] == ["k", "k"]


async def test_an_answer_that_is_cut_off_is_not_asked_for_again(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b'{"succ'], cut=True), as_json(normal()))
    with pytest.raises(HostUnavailable, match="the skill may have run"):
        await fetch(scripted_host.url)
    assert len(scripted_host.requests) == 1


async def test_an_answer_that_is_cut_off_is_asked_for_again_with_a_key(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b'{"succ'], cut=True), as_json(normal()))
    assert (await fetch(scripted_host.url, KEYED)).status == 200


async def test_an_answer_without_end_is_stopped(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"x" * 60_000] * 100))
    with pytest.raises(LimitExceeded, match="larger than 100,000 bytes"):
        await fetch(scripted_host.url)


async def test_an_answer_that_does_not_come_ends_at_the_deadline(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"{"], hold=True))
    with pytest.raises(DeadlineExceeded, match="timed out"):
        await fetch(scripted_host.url, seconds=0.05)


async def test_a_packed_answer_that_nobody_asked_for_is_refused(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"\x1f\x8b"], headers={"Content-Encoding": "gzip"}))
    with pytest.raises(BadSkillOutput, match="compressed response"):
        await fetch(scripted_host.url)
    assert scripted_host.requests[0].headers["accept-encoding"] == "identity"


async def test_a_redirect_within_the_host_is_followed_with_everything(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply(status=307, headers={"Location": "/y"}))
    scripted_host.on("POST /y", as_json(normal()))
    assert (await fetch(scripted_host.url)).status == 200
    assert [(one.path, one.body) for one in scripted_host.requests] == [("/x", b"{}"), ("/y", b"{}")]
    assert scripted_host.requests[1].headers["authorization"] == "Bearer k"


async def test_a_redirect_to_another_host_is_not_followed(scripted_host: Scripted) -> None:
    with scripted() as other:
        scripted_host.on("POST /x", Reply(status=307, headers={"Location": f"{other.url}/x"}))
        with pytest.raises(HostUnavailable, match="another host; set OPENSKILL_HTTP_BASE_URL"):
            await fetch(scripted_host.url)
        assert other.requests == []


async def test_a_redirect_that_would_lose_the_input_is_not_followed(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply(status=303, headers={"Location": "/page"}))
    with pytest.raises(HostUnavailable, match="to a page"):
        await fetch(scripted_host.url)


async def test_redirects_in_a_circle_end(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply(status=308, headers={"Location": "/x"}))
    with pytest.raises(HostUnavailable, match="more than 3 times"):
        await fetch(scripted_host.url)


async def pieces_of(url: str, max_pieces: int = 100) -> list[bytes]:
    found: list[bytes] = []
    async with connect(url) as connection, connection.open_stream(POST, None) as answer:
        async for piece in answer.body:
            found.append(piece)
            if len(found) >= max_pieces:
                break
    return found


async def test_an_opened_answer_comes_in_pieces(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"one", b"two"]))
    assert b"".join(await pieces_of(scripted_host.url)) == b"onetwo"


async def test_an_opened_answer_may_be_left_and_the_server_hears_of_it(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"one"], hold=True))
    assert await pieces_of(scripted_host.url, max_pieces=1) == [b"one"]
    assert await asyncio.to_thread(scripted_host.gone.wait, 10)


async def test_silence_in_an_opened_answer_has_an_end(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"one"], hold=True))
    with pytest.raises(DeadlineExceeded):
        await pieces_of(scripted_host.url)


async def test_an_opened_answer_that_is_cut_off_is_noticed(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"one"], cut=True))
    with pytest.raises(HostUnavailable, match="closed the connection"):
        await pieces_of(scripted_host.url)


async def test_a_busy_host_is_asked_again_before_an_answer_is_opened(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", failure(429, "later", Retry_After="0"), Reply([b"one"]))
    assert await pieces_of(scripted_host.url) == [b"one"]


def test_every_loop_has_connections_of_its_own(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", as_json(normal()))
    connection = new_transport(scripted_host.url)

    async def work() -> int:
        try:
            return (await connection.fetch(POST, None)).status
        finally:
            await connection.close()

    assert [asyncio.run(work()), run(work()), asyncio.run(work())] == [200, 200, 200]


ERROR = {"code": 404, "message": "no such skill", "details": {"reason": "UNKNOWN_SKILL"}}


def test_what_a_host_writes_is_read_as_it_was() -> None:
    fine = normalize_outcome(
        success_outcome({"n": [1, "二"]}, truncated=True, notes={"pid": 7}),
        skill_id="a",
        trace_id="t",
        latency_ms=1.5,
        version="1.0",
    )
    broken = normalize_outcome(
        failure_outcome(Failure(504, "too late", {"reason": "DEADLINE_EXCEEDED"})),
        skill_id="a",
        trace_id="t",
        latency_ms=2.0,
        version="1.0",
    )
    for result in (fine, broken):
        assert result_from_dict(json.loads(json.dumps(result.to_dict()))).to_dict() == result.to_dict()


def answered(body: bytes, status: int = 200, **headers: str) -> ClientResponse[bytes]:
    return ClientResponse(status, headers, body, AsyncExitStack().aclose)


def test_the_example_of_the_document_is_a_result() -> None:
    text = (
        '{ "success": true, "skill_id": "echo", "trace_id": "demo-123", "data": { "echoed": "hello" }, "error": null, '
        '"meta": { "latency_ms": 3, "version": "0.1.0" } }'
    )
    found = read_result(answered(text.encode()))
    assert (found.success, found.trace_id, found.version, found.latency_ms) == (True, "demo-123", "0.1.0", 3.0)
    assert unwrap(found) == {"echoed": "hello"}


def test_meta_and_details_may_be_left_out() -> None:
    plain = normal(success=False, data=None, error={"code": 400, "message": "no"})
    del plain["meta"]
    found = result_from_dict(plain, retry_after=3.0)
    assert found.outcome.failure == Failure(400, "no", {}, 3.0)
    assert found.latency_ms == 0.0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"success": 1}, "not a boolean"),
        ({"skill_id": None}, "'skill_id' is not a string"),
        ({"trace_id": 3}, "'trace_id' is not a string"),
        ({"data": [1]}, "'data' is not an object"),
        ({"error": ERROR}, "success and an error"),
        ({"success": False, "error": ERROR}, "data although it failed"),
        ({"success": False, "data": None}, "'error' is not an object"),
        ({"success": False, "data": None, "error": {**ERROR, "code": "404"}}, "error.code"),
        ({"success": False, "data": None, "error": {**ERROR, "code": True}}, "error.code"),
        ({"success": False, "data": None, "error": {**ERROR, "message": None}}, "'message' is not a string"),
        ({"success": False, "data": None, "error": {**ERROR, "details": []}}, "error.details"),
        ({"meta": [1]}, "meta is not an object"),
        ({"meta": {"latency_ms": -1}}, "latency_ms"),
        ({"meta": {"latency_ms": True}}, "latency_ms"),
        ({"meta": {"version": 1}}, "version"),
        ({"meta": {"truncated": "yes"}}, "truncated"),
    ],
)
def test_what_breaks_a_constraint_is_refused_with_the_reason(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidResult, match=why):
        result_from_dict(normal(**changes))


@pytest.mark.parametrize("name", ["success", "skill_id", "trace_id", "data", "error"])
def test_no_field_may_be_missing(name: str) -> None:
    plain = normal()
    del plain[name]
    with pytest.raises(InvalidResult, match=f"'{name}' is missing"):
        result_from_dict(plain)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>502</html>", "not valid JSON"),
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": 1, "a": 2}', "duplicate key"),
        (b"[" * 100_000, "too deeply"),
        (b"1" * 10_000, "too many digits"),
    ],
)
def test_a_body_that_is_not_strict_json_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(InvalidResult, match=why):
        read_json(body)


def test_an_answer_that_is_none_is_shown_in_part() -> None:
    with pytest.raises(BadSkillOutput, match=r"response of the host \(500\)") as caught:
        read_result(answered(b"<html>" + b"x" * 10_000, 500))
    assert caught.value.details["status"] == 500
    assert str(caught.value.details["excerpt"]).startswith("<html>xxx")
    assert len(str(caught.value.details["excerpt"])) == MAX_EXCERPT + 1


def test_success_with_the_status_of_an_error_is_refused() -> None:
    with pytest.raises(BadSkillOutput, match="HTTP status is an error"):
        read_result(answered(json.dumps(normal()).encode(), 500))


def test_a_failure_says_how_long_the_host_wants_us_to_wait() -> None:
    body = json.dumps(normal(success=False, data=None, error={"code": 429, "message": "later"})).encode()
    waits = [
        failed.retry_after
        for headers in ({"retry-after": "90"}, {"retry-after": "soon"}, {})
        if (failed := read_result(answered(body, 429, **headers)).outcome.failure) is not None
    ]
    assert waits == [90.0, None, None]


def test_a_failure_is_an_exception_only_for_those_who_ask() -> None:
    result = result_from_dict(normal(success=False, data=None, error=ERROR))
    with pytest.raises(SkillFailed, match="echo: no such skill") as caught:
        unwrap(result)
    assert caught.value.result is result
    assert caught.value.failure.code == 404
    assert caught.value.details == {"reason": "UNKNOWN_SKILL", "code": 404}


def test_success_without_data_is_an_empty_object() -> None:
    assert unwrap(result_from_dict(normal(data=None))) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys((*normal(), "more"), JSON)), st.integers(100, 599))
def test_whatever_a_host_answers_is_a_result_or_refused(plain: dict[str, Any], status: int) -> None:
    body = json.dumps(plain).encode()
    with suppress(BadSkillOutput):
        found = read_result(answered(body, status))
        assert result_from_dict(found.to_dict()) == found


def test_an_excerpt_never_fails() -> None:
    assert excerpt(b"ok") == "ok"
    assert excerpt(b"\xff") == "\ufffd"


def test_only_an_object_is_an_object() -> None:
    assert check_object({"a": 1}, "it") == {"a": 1}
    with pytest.raises(InvalidResult, match="it is not an object"):
        check_object("text", "it")


def test_an_address_loses_the_slash_at_its_end() -> None:
    assert parse_base_url("http://127.0.0.1:8000/", name="x") == "http://127.0.0.1:8000"
    assert parse_base_url(" https://Skills.example/openskill/ ", name="x") == "https://Skills.example/openskill"


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000",
        "ftp://x",
        "http://",
        "http://x:99999",
        "http://x:0",
        "http://u:p@x",
        "http://x/?a=b",
        "http://x/#y",
        "http://[::1",
        "http://x\ny",
        "",
    ],
)
def test_what_is_not_an_address_of_a_host_is_refused_by_its_name(url: str) -> None:
    with pytest.raises(InvalidArgument, match="OPENSKILL_HTTP_BASE_URL"):
        parse_base_url(url, name="OPENSKILL_HTTP_BASE_URL")


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_base_url("http://me:secret@host", name="url")
    assert "secret" not in str(caught.value)


def test_what_stays_on_this_machine_is_known() -> None:
    assert is_local_url("http://127.0.0.1:8000")
    assert is_local_url("http://[::1]:8000")
    assert is_local_url("http://localhost")
    assert not is_local_url("http://skills.example")
    assert not is_local_url("http://10.0.0.1")


def test_paths_begin_with_a_slash_so_that_the_colon_is_not_a_scheme() -> None:
    assert skill_path("echo", "invoke") == "/skills/echo:invoke"
    assert skill_path("file_search") == "/skills/file_search"
    assert run_path("r1", "/events") == "/runs/r1/events"


@given(st.text(max_size=50))
def test_no_id_leaves_its_place_in_the_path(text: str) -> None:
    try:
        path = skill_path(text, "invoke")
    except InvalidArgument:
        return
    parts = urlsplit("http://host" + path)
    assert (parts.netloc, parts.query, parts.fragment) == ("host", "", "")
    assert parts.path.count("/") == 2
    assert parts.path.startswith("/skills/")
    assert parts.path.endswith(":invoke")


@pytest.mark.parametrize("text", ["", "..", ".", "a/b", "a\nb", "x" * 201])
def test_what_can_be_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="skill_id"):
        skill_path(text)
    with pytest.raises(InvalidArgument, match="run_id"):
        run_path(text)


@pytest.mark.parametrize("text", ["", "a b", "a\r\nX-Evil: 1", "é", "x" * 256])
def test_a_header_cannot_be_broken_out_of(text: str) -> None:
    with pytest.raises(InvalidArgument, match="trace_id"):
        check_header_value(text, name="trace_id")


def test_a_header_is_visible_ascii() -> None:
    assert check_header_value("demo-123", name="trace_id") == "demo-123"
    with pytest.raises(InvalidArgument, match="up to 5"):
        check_header_value("demo-123", name="trace_id", max_length=5)


def test_a_key_that_is_none_is_not_repeated() -> None:
    assert bearer_header("sk-1") == "Bearer sk-1"
    with pytest.raises(InvalidArgument) as caught:
        bearer_header("my secret")
    assert "secret" not in str(caught.value)


def test_the_body_is_the_input_and_nothing_else() -> None:
    assert json.loads(encode_body({"text": "二"})) == {"input": {"text": "二"}}


def circle() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["self"] = found
    return found


@pytest.mark.parametrize("input_", [{"a": float("nan")}, {"a": object()}, {"a": "\ud800"}, circle(), [1], "text"])
def test_an_input_that_is_not_a_json_object_is_refused(input_: Any) -> None:
    with pytest.raises(InvalidArgument, match="input"):
        encode_body(input_)


RETRIES = RetryPolicy(attempts=3, pause=1.0, longest_pause=8.0, longest_retry_after=30.0)
HTML = {"content-type": "text/html"}
RETRIES_JSON = {"content-type": "application/json; charset=utf-8"}


def after(status: int, headers: dict[str, str], *, tried: int = 1, repeatable: bool = False) -> float | None:
    return pause_after_response(RETRIES, tried, 0.0, status, headers, repeatable=repeatable)


def test_what_never_left_is_sent_again_with_growing_pauses_made_shorter_by_chance() -> None:
    pauses = [pause_after_failure(RETRIES, tried, 0.0, repeatable=True) for tried in (1, 2, 3)]
    assert pauses == [1.0, 2.0, None]
    assert pause_after_failure(RETRIES, 1, 1.0, repeatable=True) == 0.5


def test_what_may_have_arrived_is_sent_again_only_if_that_does_no_harm() -> None:
    assert pause_after_failure(RETRIES, 1, 0.0, repeatable=False) is None
    assert pause_after_failure(RETRIES, 1, 0.0, repeatable=True) == 1.0


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_host_is_asked_again_when_it_said_when(status: int) -> None:
    assert after(status, {**RETRIES_JSON, "retry-after": "2"}) == 3.0
    assert after(status, RETRIES_JSON) is None
    assert after(status, {**RETRIES_JSON, "retry-after": "soon"}) is None


def test_a_host_that_wants_us_to_stay_away_for_long_is_not_asked_again() -> None:
    assert after(429, {"retry-after": "31"}) is None


def test_a_date_counts_only_beside_the_clock_of_the_server() -> None:
    date = {"retry-after": "Sun, 15 Nov 2026 10:00:05 GMT"}
    assert after(503, date) is None
    assert after(503, {**date, "date": "Sun, 15 Nov 2026 10:00:00 GMT"}) == 6.0


@pytest.mark.parametrize("status", [502, 504])
def test_a_gateway_is_asked_again_only_with_an_idempotency_key(status: int) -> None:
    assert after(status, HTML) is None
    assert after(status, HTML, repeatable=True) == 1.0
    assert after(status, {**HTML, "retry-after": "4"}, repeatable=True) == 5.0


@pytest.mark.parametrize("status", [502, 504])
def test_a_result_of_the_skill_is_not_a_gateway(status: int) -> None:
    assert after(status, RETRIES_JSON, repeatable=True) is None


def test_a_run_of_the_same_key_that_goes_on_is_waited_for() -> None:
    assert after(409, {**RETRIES_JSON, "retry-after": "1"}, repeatable=True) == 2.0
    assert after(409, {**RETRIES_JSON, "retry-after": "1"}) is None
    assert after(409, RETRIES_JSON, repeatable=True) is None


@pytest.mark.parametrize("status", [200, 400, 401, 404, 413, 422, 500, 501])
def test_every_other_answer_counts(status: int) -> None:
    assert after(status, {**HTML, "retry-after": "1"}, repeatable=True) is None


def test_there_is_an_end_to_it() -> None:
    assert after(429, {"retry-after": "1"}, tried=3) is None


def test_json_is_known_by_its_type() -> None:
    assert is_json_response(RETRIES_JSON)
    assert not is_json_response(HTML)
    assert not is_json_response({})


STREAM = (
    ": a sign of life\n\n"
    "event: start\nid: 1\ndata: {}\n\n"
    'event: stdout\r\nid: 2\r\ndata: {"text": "二"}\r\n\r\n'
    "data: one\rdata: two\r\rretry: 5\nevent: never\n\n"
    "id: 9\n\ndata:x\n\n"
)
EVENTS = [
    ServerEvent("start", "{}", "1"),
    ServerEvent("stdout", '{"text": "二"}', "2"),
    ServerEvent("message", "one\ntwo", "2"),
    ServerEvent("message", "x", "9"),
]


def read(*pieces: bytes, most: int = 1000) -> list[ServerEvent]:
    reader = EventReader(most)
    return [event for piece in pieces for event in reader.feed(piece)]


@given(st.lists(st.integers(0, len(STREAM.encode())), max_size=12))
def test_where_the_pieces_end_makes_no_difference(cuts: list[int]) -> None:
    data = STREAM.encode()
    places = [0, *sorted(cuts), len(data)]
    assert read(*(data[start:end] for start, end in pairwise(places))) == EVENTS


def test_byte_by_byte_is_the_same() -> None:
    assert read(*(bytes([byte]) for byte in STREAM.encode())) == EVENTS


def test_a_byte_order_mark_at_the_beginning_is_skipped() -> None:
    assert read(b"\xef", b"\xbb\xbfdata: x\n\n") == [ServerEvent("message", "x")]


def test_an_event_that_is_not_complete_is_none() -> None:
    assert read(b"event: result\ndata: {}\n") == []


@pytest.mark.parametrize("pieces", [(b"data: " + b"x" * 2000,), (b"data: xxxxxxxx\n",) * 200, (b"x" * 600, b"x" * 600)])
def test_an_event_that_does_not_end_is_stopped(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(LimitExceeded, match="larger than 1,000 bytes"):
        read(*pieces)


def test_comments_without_end_are_not_an_event() -> None:
    assert read(*(b": ping\n\n",) * 1000) == []


@pytest.mark.parametrize("line", [b"<html>\n", b"data: \xff\n", b"strange: x\n"])
def test_what_is_not_a_stream_of_events_is_refused_with_an_excerpt(line: bytes) -> None:
    with pytest.raises(BadSkillOutput) as caught:
        read(line)
    assert caught.value.details["excerpt"] == line.decode("utf-8", "replace").rstrip()


@given(st.lists(st.binary(max_size=200) | st.sampled_from([b"data: {}\n", b"\n", b"\r", b"event: x\n"]), max_size=20))
def test_no_bytes_break_it_otherwise(pieces: list[bytes]) -> None:
    with suppress(BadSkillOutput, LimitExceeded):
        read(*pieces)


def test_the_last_id_is_known_to_those_who_go_on() -> None:
    reader = EventReader()
    list(reader.feed(b"id: 7\ndata: x\n\nid: a\0b\ndata: x\n\n"))
    assert reader.last_id == "7"
