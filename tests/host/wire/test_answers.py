"""Results as bytes, with status and headers."""

import json

import pytest

from openskills.host.result import Failure, InvokeResult, Outcome, failed, normalised, ok
from openskills.host.wire.answers import answer_of, document, refusal, status_of, wire_form
from openskills.host.wire.trace_ids import trace_of

TRACE = trace_of(b"demo-123", None)


def result_of(outcome: Outcome) -> InvokeResult:
    return normalised(outcome, skill_id="echo", trace_id="demo-123", latency_ms=1.0, version="0.1.0")


def test_an_answer_has_the_trace_in_its_headers_and_in_its_body() -> None:
    answer = answer_of(*wire_form(result_of(ok({"a": 1}))), TRACE)
    headers = dict(answer.headers)
    assert (answer.status, headers[b"content-type"]) == (200, b"application/json")
    assert headers[b"content-length"] == str(len(answer.body)).encode()
    assert headers[b"x-trace-id"] == b"demo-123" == json.loads(answer.body)["trace_id"].encode()
    assert headers[b"traceparent"] == TRACE.here.encode()


@pytest.mark.parametrize("data", [{"a": {1}}, {"a": "\ud800"}, {1: {2: object()}}])
def test_data_that_are_no_json_make_it_a_failure(data: dict[str, object]) -> None:
    result, body = wire_form(result_of(ok(data)))
    assert (result.success, result.status) == (False, 502)
    assert json.loads(body)["error"]["code"] == 502


def test_data_that_hold_themselves_make_it_a_failure() -> None:
    data: dict[str, object] = {}
    data["self"] = data
    assert wire_form(result_of(ok(data)))[0].status == 502


def test_integers_beyond_64_bits_are_written_with_every_digit() -> None:
    assert json.loads(wire_form(result_of(ok({"n": 2**99})))[1])["data"]["n"] == 2**99


@pytest.mark.parametrize(("code", "status"), [(400, 400), (599, 599), (42, 500), (0, 500), (200, 200), (1000, 500)])
def test_a_code_that_is_no_status_of_an_error_is_an_internal_error(code: int, status: int) -> None:
    assert status_of(result_of(failed(Failure(code, "x")))) == status


@pytest.mark.parametrize(("after", "header"), [(0.1, b"1"), (1.2, b"2"), (30.0, b"30")])
def test_when_to_come_back_is_told_in_whole_seconds(after: float, header: bytes) -> None:
    assert dict(refusal(Failure(429, "slow down", {}, after), TRACE).headers)[b"retry-after"] == header


def test_who_has_no_key_is_told_what_kind_is_wanted() -> None:
    assert dict(refusal(Failure(401, "no key"), TRACE).headers)[b"www-authenticate"] == b"Bearer"


def test_a_document_is_the_data_of_a_result() -> None:
    answer = document({"skills": []}, TRACE, status=202)
    assert answer.status == 202
    assert json.loads(answer.body)["data"] == {"skills": []}
