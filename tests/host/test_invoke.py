"""`POST /skills/{id}:invoke` as callers know it: good requests, bad ones, hostile ones.

Whether a caller waits, and runs that begin without one who does.

`POST /skills/{id}:stream`: what a skill shows, while it works.

What can be done with a skill, by the address.
"""

import json
import socket
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openskills.errors import InvalidArgument
from openskills.host.client.transport import EventReader
from openskills.host.invoke import is_action_path, is_synchronous
from openskills.host.model import Call, Failure, Outcome, failure_outcome, success_outcome
from openskills.host.parts import HostOptions
from tests.host.exchanges import Sent
from tests.host.hosting import ECHO_MANIFEST, Served, Waiting, chatty, echo, eventually, key_in, manifest, served
from tests.host.test_app import check_normalised
from tests.long_form import examples

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    async def strange(call: Call) -> Outcome:
        return success_outcome({"set": {1, 2}})

    async def refusing(call: Call) -> Outcome:
        return failure_outcome(Failure(403, "not there", {"reason": "FORBIDDEN_PATH"}))

    async def large(call: Call) -> Outcome:
        return success_outcome({"integer": 2**70, "text": "编\u2028"})

    async def lying(call: Call) -> Outcome:
        return success_outcome({"other": 1})

    directory = tmp_path_factory.mktemp("host")
    manifest(directory, "lying", ECHO_MANIFEST.replace("required: [text]", "required: []"))
    functions = {"echo": echo, "strange": strange, "refusing": refusing, "large": large, "lying": lying}
    with served(directory, functions, host_max_body=10_000) as found:
        yield found


def raw(host: Served, data: bytes, *, end: bool = False) -> bytes:
    """What comes back for these bytes, to the end of the connection or of the first answer."""
    with socket.create_connection(("127.0.0.1", int(host.url.rpartition(":")[2])), timeout=20) as connection:
        connection.sendall(data)
        if end:
            connection.shutdown(socket.SHUT_WR)
        found = b""
        while part := connection.recv(65536):
            found += part
            head, _, body = found.partition(b"\r\n\r\n")
            if b"content-length: %d\r\n" % len(body) in head + b"\r\n":
                break
    return found


def result_in(answer: bytes) -> dict[str, Any]:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "empty"),
        (b"{", 400, "not valid JSON"),
        (b'{"input": {"text": NaN}}', 400, "not valid JSON"),
        (b'{"input": {"text": "a", "text": "b"}}', 400, "duplicate key"),
        (b'{"input": {"text": "\\ud800"}}', 400, "surrogate"),
        (b'{"input": {"text": ' + b"[" * 100 + b"]" * 100 + b"}}", 400, "levels deep"),
        (b'{"input": {}}', 400, '"text" is a required property'),
        (b'{"input": {"text": 1}}', 400, "input.text"),
        (b'{"input": {"text": "a", "more": 1}}', 400, "more"),
        (b'{"input": []}', 400, "expected an object"),
        (b'{"inputs": {}}', 400, "unknown field"),
        (b'{"input": {"text": "' + b"a" * 10_000 + b'"}}', 413, "the limit is 10,000 bytes"),
    ],
)
def test_a_bad_body_is_refused_with_what_is_wrong(host: Served, body: bytes, status: int, said: str) -> None:
    answer = host.client.post("/skills/echo:invoke", content=body, headers=JSON)
    assert answer.status_code == status
    assert said in check_normalised(answer)["error"]["message"]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_body_that_is_not_json_is_refused_by_its_type(host: Served, content_type: str) -> None:
    answer = host.client.post("/skills/echo:invoke", content=b"{}", headers={"Content-Type": content_type})
    assert answer.status_code == 415
    assert "Content-Type: application/json" in check_normalised(answer)["error"]["message"]


def test_an_unknown_skill_is_refused_with_the_nearest_names(host: Served) -> None:
    answer = host.invoke("ecko", {"text": "a"})
    assert answer.status_code == 404
    assert check_normalised(answer)["error"]["details"]["near"] == ["echo"]


def test_what_a_skill_reports_is_passed_on_with_its_status(host: Served) -> None:
    answer = host.invoke("refusing", {})
    assert answer.status_code == 403
    assert check_normalised(answer)["error"]["details"]["reason"] == "FORBIDDEN_PATH"


def test_data_that_cannot_be_written_as_json_are_the_fault_of_the_skill(host: Served) -> None:
    answer = host.invoke("strange", {})
    assert answer.status_code == 502
    assert check_normalised(answer)["error"]["details"]["reason"] == "BAD_SKILL_OUTPUT"


def test_data_that_break_the_output_schema_are_the_fault_of_the_skill(host: Served) -> None:
    answer = host.invoke("lying", {})
    assert answer.status_code == 502
    assert "echoed" in check_normalised(answer)["error"]["message"]


def test_integers_of_any_size_and_text_of_any_language_come_back_whole(host: Served) -> None:
    assert check_normalised(host.invoke("large", {}))["data"] == {"integer": 2**70, "text": "编\u2028"}


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(host: Served) -> None:
    head = b"POST /skills/echo:invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    answer = raw(host, head + b"Content-Length: 99999999999\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert result_in(answer)["error"]["code"] == 413


def test_a_body_in_chunks_is_bounded_too(host: Served) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    answer = host.client.post("/skills/echo:invoke", content=chunks(), headers=JSON)
    assert answer.status_code == 413
    check_normalised(answer)


def test_a_body_in_chunks_is_put_together(host: Served) -> None:
    answer = host.client.post(
        "/skills/echo:invoke", content=iter([b'{"input": {"te', b'xt": "he', b'llo"}}']), headers=JSON
    )
    assert check_normalised(answer)["data"] == {"echoed": "hello"}


def test_a_body_that_does_not_come_is_given_up_and_the_connection_closed(tmp_path: Path) -> None:
    head = b"POST /skills/echo:invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with served(tmp_path, options=HostOptions(watch=False, body_seconds=0.3)) as host:
        answer = raw(host, head + b"Content-Length: 30\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in answer
    assert result_in(answer)["error"]["details"]["reason"] == "REQUEST_TIMEOUT"


def test_a_caller_that_hangs_up_in_the_middle_of_its_body_does_no_harm(host: Served) -> None:
    head = b"POST /skills/echo:invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    raw(host, head + b"Content-Length: 30\r\n\r\n{", end=True)
    assert host.invoke("echo", {"text": "a"}).status_code == 200


def test_every_invocation_leaves_one_line_whatever_came_of_it(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        host.invoke("echo", {"text": "a"}, headers={"X-Trace-Id": "good"})
        host.invoke("echo", {"text": 1}, headers={"X-Trace-Id": "bad"})
        host.invoke("nope", {}, headers={"X-Trace-Id": "unknown"})
        host.client.post("/skills/echo:invoke", content=b"{", headers={**JSON, "X-Trace-Id": "broken"})
    found = [(line["trace_id"], line["runner_type"], line["success"], line["error.code"]) for line in host.lines()]
    assert found == [
        ("good", "inproc", True, None),
        ("bad", "inproc", False, 400),
        ("unknown", None, False, 404),
        ("broken", "inproc", False, 400),
    ]


def test_who_hangs_up_ends_the_skill(tmp_path: Path) -> None:
    waiting = Waiting()
    with served(tmp_path, {"waiting": waiting}) as host:
        body = b'{"input": {}}'
        with socket.create_connection(("127.0.0.1", int(host.url.rpartition(":")[2])), timeout=20) as connection:
            head = "POST /skills/waiting:invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert waiting.began.wait(20)
        assert waiting.cancelled.wait(20)
        eventually(lambda: host.parts.host.in_flight == 0)
    assert [(line["success"], line["error.code"]) for line in host.lines()] == [(False, 499)]


def test_a_request_that_comes_again_with_its_key_is_done_once(tmp_path: Path) -> None:
    calls: list[Call] = []

    async def counting(call: Call) -> Outcome:
        calls.append(call)
        return success_outcome({"count": len(calls)})

    with served(tmp_path, {"counting": counting}) as host:
        key = {"Idempotency-Key": "once"}
        first = host.invoke("counting", {"a": 1}, headers=key)
        second = host.invoke("counting", {"a": 1}, headers=key)
        other = host.invoke("counting", {"a": 2}, headers=key)
    assert (first.status_code, second.status_code, other.status_code) == (200, 200, 422)
    assert second.content == first.content
    assert second.headers["x-trace-id"] == first.headers["x-trace-id"]
    assert second.headers["idempotent-replayed"] == "true"
    assert check_normalised(other)["error"]["details"]["reason"] == "KEY_REUSED"
    assert len(calls) == 1


def test_while_the_first_request_is_under_way_the_second_is_told_to_come_back(tmp_path: Path) -> None:
    waiting = Waiting()
    with served(tmp_path, {"waiting": waiting}) as host, ThreadPoolExecutor(1) as pool:
        key = {"Idempotency-Key": "once"}
        first = pool.submit(host.invoke, "waiting", {}, headers=key)
        assert waiting.began.wait(20)
        second = host.invoke("waiting", {}, headers=key)
        waiting.may_end.set()
        assert first.result(20).status_code == 200
    assert (second.status_code, second.headers["retry-after"]) == (409, "1")
    assert check_normalised(second)["error"]["details"]["reason"] == "REQUEST_IN_FLIGHT"


def test_a_key_that_is_none_is_refused(host: Served) -> None:
    answer = host.invoke("echo", {"text": "a"}, headers={"Idempotency-Key": "x" * 300})
    assert answer.status_code == 400
    check_normalised(answer)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text().map(lambda text: text.encode("utf-8", "replace")))
def test_random_bodies_are_refused_or_done_and_never_break_anything(host: Served, body: bytes) -> None:
    answer = host.client.post("/skills/echo:invoke", content=body, headers=JSON)
    assert answer.status_code in {200, 400}
    check_normalised(answer)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(json_values)
def test_random_inputs_are_echoed_or_refused(host: Served, value: Any) -> None:
    body = json.dumps({"input": {"text": value}}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    answer = host.client.post("/skills/echo:invoke", content=body, headers=JSON)
    if isinstance(value, str) and len(body) <= 10_000:
        assert check_normalised(answer)["data"] == {"echoed": value}
    else:
        assert answer.status_code in {400, 413}


@pytest.mark.parametrize(
    ("query", "prefer", "waits"),
    [
        ("", None, True),
        ("mode=sync", None, True),
        ("other=1", None, True),
        ("mode=async", None, False),
        ("", "respond-async", False),
        ("", "wait=5, Respond-Async", False),
        ("", "return=minimal", True),
        ("mode=sync", "respond-async", False),
    ],
)
def test_a_caller_says_in_the_address_or_in_a_header_that_it_does_not_wait(
    query: str, prefer: str | None, waits: bool
) -> None:
    assert is_synchronous(Sent(query=query, headers={"Prefer": prefer} if prefer else {}).exchange) is waits


def test_a_mode_that_is_not_known_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="mode: 'later' is not one of sync, async"):
        is_synchronous(Sent(query="mode=later").exchange)


def test_the_row_in_the_history_has_the_id_of_the_run(tmp_path: Path) -> None:
    with served(tmp_path, {"echo": echo}) as host:
        answer = host.client.post("/skills/echo:invoke?mode=async", json={"input": {"text": "a"}})
        run = answer.json()["data"]["id"]
        eventually(lambda: host.client.get(f"/runs/{run}").json()["data"]["state"] == "succeeded")
        assert answer.headers["preference-applied"] == "respond-async"
    with closing(sqlite3.connect(tmp_path / ".local/state/openskills/host.db")) as database:
        assert database.execute("SELECT id FROM history").fetchall() == [(run,)]


def events_of(host: Served, skill_id: str, value: dict[str, Any] | None = None) -> list[tuple[str, Any]]:
    import json

    reader = EventReader()
    with host.client.stream("POST", f"/skills/{skill_id}:stream", json={"input": value or {}}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [(event.kind, json.loads(event.data)) for part in answer.iter_raw() for event in reader.feed(part)]


def test_what_a_skill_shows_comes_in_order_and_the_result_last(tmp_path: Path) -> None:
    with served(tmp_path, {"chatty": chatty}) as host:
        found = events_of(host, "chatty")
    assert [kind for kind, _ in found] == ["start", "stdout", "progress", "result"]
    assert found[1][1] == {"text": "working\n"}
    assert found[3][1]["data"] == {"done": True}
    assert found[0][1]["trace_id"] == found[3][1]["trace_id"]


def test_a_failure_is_told_twice_for_those_who_wait_for_errors_only(tmp_path: Path) -> None:
    async def failing(call: Call) -> Outcome:
        return failure_outcome(Failure(502, "no JSON", {"reason": "BAD_SKILL_OUTPUT"}))

    with served(tmp_path, {"failing": failing}) as host:
        found = events_of(host, "failing")
    assert [kind for kind, _ in found] == ["start", "error", "result"]
    assert found[1][1] == found[2][1]["error"]


@pytest.mark.parametrize(("skill", "value", "status"), [("echo", {"text": 1}, 400), ("nope", {}, 404)])
def test_what_cannot_begin_is_refused_in_json(tmp_path: Path, skill: str, value: dict[str, Any], status: int) -> None:
    with served(tmp_path, {"echo": echo}) as host:
        answer = host.client.post(f"/skills/{skill}:stream", json={"input": value})
        assert answer.status_code == status
        check_normalised(answer)
    assert [line["error.code"] for line in host.lines()] == [status]


def test_when_nothing_happens_a_comment_keeps_the_connection_open(tmp_path: Path) -> None:
    waiting = Waiting()
    options = HostOptions(watch=False, ping_seconds=0.02)
    with (
        served(tmp_path, {"waiting": waiting}, options=options) as host,
        host.client.stream("POST", "/skills/waiting:stream", json={"input": {}}) as answer,
    ):
        text = ""
        for part in answer.iter_text():
            text += part
            if text.partition("event: start")[2].count(": ping\n\n") >= 2:
                waiting.may_end.set()
    assert ": ping" in text.partition("event: start")[2].partition("event: result")[0]


def test_who_hangs_up_ends_the_skill_in_streams(tmp_path: Path) -> None:
    waiting = Waiting()
    with served(tmp_path, {"waiting": waiting}) as host:
        with host.client.stream("POST", "/skills/waiting:stream", json={"input": {}}):
            assert waiting.began.wait(20)
        assert waiting.cancelled.wait(20)
        eventually(lambda: host.parts.host.in_flight == 0)


@pytest.mark.parametrize("path", ["/skills/echo:invoke", "/skills/echo:", "/skills/:invoke", "/skills/a:b:invoke"])
def test_addresses_with_a_colon_after_the_id_name_a_verb(path: str) -> None:
    assert is_action_path(path)


@pytest.mark.parametrize("path", ["/skills", "/skills/echo", "/skills/echo/a:b", "/runs/x:cancel", "/skill:s/echo"])
def test_others_do_not(path: str) -> None:
    assert not is_action_path(path)


def test_an_id_with_a_colon_is_looked_for_as_it_is(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        assert host.invoke("a:b", {}).json()["error"]["details"]["name"] == "a:b"


def test_a_very_long_id_is_not_repeated_whole(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        assert len(host.invoke("x" * 5000, {}).text) < 1000


LIMITS = {"ratelimit-policy": '"key";q=2;w=2000', "x-ratelimit-limit": "2"}


def rate_limit_headers(answer: Any) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if "ratelimit" in name}


def test_rate_limit_headers_count_down_to_a_429(tmp_path: Path) -> None:
    key = {"Authorization": f"Bearer {key_in(tmp_path, rate_per_second=0.001, burst=2)}"}
    with served(tmp_path) as host:
        first, second, third = (host.invoke("echo", {"text": "a"}, headers=key) for _ in range(3))
    assert [answer.status_code for answer in (first, second, third)] == [200, 200, 429]
    for answer, remaining in ((first, "1"), (second, "0"), (third, "0")):
        found = rate_limit_headers(answer)
        reset = found.pop("x-ratelimit-reset")
        assert 0 < int(reset) <= 2000
        assert found == {**LIMITS, "ratelimit": f'"key";r={remaining};t={reset}', "x-ratelimit-remaining": remaining}
    assert int(third.headers["retry-after"]) > 900


def test_streams_and_asynchronous_runs_show_the_limit_before_they_are_counted(tmp_path: Path) -> None:
    key = {"Authorization": f"Bearer {key_in(tmp_path, rate_per_second=0.001, burst=2)}"}
    with served(tmp_path) as host:
        stream = host.client.post("/skills/echo:stream", json={"input": {"text": "a"}}, headers=key)
        run = host.invoke("echo", {"text": "a"}, headers={**key, "Prefer": "respond-async"})
    assert (stream.status_code, run.status_code) == (200, 202)
    assert {**LIMITS, "x-ratelimit-remaining": "2"}.items() <= rate_limit_headers(stream).items()
    assert {**LIMITS, "x-ratelimit-remaining": "1"}.items() <= rate_limit_headers(run).items()


def test_a_key_without_a_rate_limit_gets_no_rate_limit_headers(tmp_path: Path) -> None:
    key = {"Authorization": f"Bearer {key_in(tmp_path, concurrency=5)}"}
    with served(tmp_path) as host:
        for more in (key, {}):
            assert rate_limit_headers(host.invoke("echo", {"text": "a"}, headers=more)) == {}
            assert (
                rate_limit_headers(host.client.post("/skills/echo:stream", json={"input": {"text": "a"}}, headers=more))
                == {}
            )


def test_a_refused_caller_with_a_key_is_in_the_log_by_name(tmp_path: Path) -> None:
    key = {"Authorization": f"Bearer {key_in(tmp_path)}", "Content-Type": "application/json"}
    many = {**key, "Idempotency-Key": "k"}
    with served(tmp_path, host_max_body=1000) as host:
        statuses: list[int] = []
        for verb in ("invoke", "stream"):
            for body, headers in (
                (b"{", key),
                (b'{"input": {"text": 3}}', key),
                (b" " * 2000, key),
                (b"{}", {**key, "X-Trace-Id": "x" * 200}),
                (b"{}", {**key, "Content-Type": "text/plain"}),
                (b'{"input": {"text": "a"}}', many),
                (b'{"input": {"text": "b"}}', many),
            ):
                answer = host.client.post(f"/skills/echo:{verb}", content=body, headers=headers)
                statuses.append(answer.status_code)
    assert statuses == [400, 400, 413, 400, 415, 200, 422] * 2
    assert {line["principal"] for line in host.lines()} == {"me"}


def test_a_result_a_log_line_and_a_row_say_how_long_a_call_was_queued_and_ran(tmp_path: Path) -> None:
    waiting = Waiting()
    with served(tmp_path, {"waiting": waiting}, host_concurrency=1) as host, ThreadPoolExecutor(2) as pool:
        first = pool.submit(host.invoke, "waiting", {})
        assert waiting.began.wait(20)
        second = pool.submit(host.invoke, "waiting", {})
        eventually(lambda: host.parts.host.in_flight == 2)
        waiting.may_end.set()
        metas = [one.result(20).json()["meta"] for one in (first, second)]
        eventually(lambda: len(host.lines()) == 2)
        for meta in metas:
            assert 0 <= meta["waited_ms"] + meta["ran_ms"] <= meta["latency_ms"]
        assert metas[1]["waited_ms"] > metas[0]["waited_ms"]
        lines = {(line["waited_ms"], line["ran_ms"]) for line in host.lines()}
        assert lines == {(meta["waited_ms"], meta["ran_ms"]) for meta in metas}
        refused = host.invoke("waiting", {}, headers={"Content-Type": "text/plain"}).json()["meta"]
        assert {"waited_ms", "ran_ms"}.isdisjoint(refused)


@pytest.mark.parametrize("verb", ["invoke", "stream"])
def test_a_client_that_closes_its_side_gets_its_answer(tmp_path: Path, verb: str) -> None:
    waiting = Waiting()
    with served(tmp_path, {"waiting": waiting, "echo": echo}) as host:
        port = int(host.url.rpartition(":")[2])
        head = f"POST /skills/%s:{verb} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        for skill, body in (("echo", b'{"input": {"text": "hi"}}'), ("waiting", b'{"input": {}}')):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                client.sendall((head % skill).encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                client.shutdown(socket.SHUT_WR)
                received = b""
                if skill == "waiting":
                    # Longer than it takes to notice that a client is gone.
                    while b"100 Continue" not in received and b": ping" not in received:
                        received += client.recv(4096)
                    waiting.may_end.set()
                while part := client.recv(4096):
                    received += part
            assert b"HTTP/1.1 200 OK" in received
            assert b'"success":true' in received
        assert not waiting.cancelled.is_set()
