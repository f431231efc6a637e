"""What is a Normalized Skill Result, and what is none."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import BadSkillOutput
from openskills.host.calling.reading import (
    LONGEST_EXCERPT,
    NotNormalised,
    SkillFailed,
    excerpt,
    from_plain,
    object_of,
    read_json,
    read_result,
    unwrap,
)
from openskills.host.result import Failure, failed, normalised, ok
from tests.host.scripted_server import normal

ERROR = {"code": 404, "message": "no such skill", "details": {"reason": "UNKNOWN_SKILL"}}


def test_what_a_host_writes_is_read_as_it_was() -> None:
    fine = normalised(
        ok({"n": [1, "二"]}, truncated=True, notes={"pid": 7}),
        skill_id="a",
        trace_id="t",
        latency_ms=1.5,
        version="1.0",
    )
    broken = normalised(
        failed(Failure(504, "too late", {"reason": "DEADLINE_EXCEEDED"})),
        skill_id="a",
        trace_id="t",
        latency_ms=2.0,
        version="1.0",
    )
    for result in (fine, broken):
        assert from_plain(json.loads(json.dumps(result.plain()))).plain() == result.plain()


def test_the_example_of_the_document_is_a_result() -> None:
    text = (
        '{ "success": true, "skill_id": "echo", "trace_id": "demo-123", "data": { "echoed": "hello" }, "error": null, '
        '"meta": { "latency_ms": 3, "version": "0.1.0" } }'
    )
    found = read_result(text.encode())
    assert (found.success, found.trace_id, found.version, found.latency_ms) == (True, "demo-123", "0.1.0", 3.0)
    assert unwrap(found) == {"echoed": "hello"}


def test_meta_and_details_may_be_left_out() -> None:
    plain = normal(success=False, data=None, error={"code": 400, "message": "no"})
    del plain["meta"]
    found = from_plain(plain, retry_after=3.0)
    assert found.outcome.failure == Failure(400, "no", {}, 3.0)
    assert found.latency_ms == 0.0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"success": 1}, "neither true nor false"),
        ({"skill_id": None}, "'skill_id' is no text"),
        ({"trace_id": 3}, "'trace_id' is no text"),
        ({"data": [1]}, "'data' is no object"),
        ({"error": ERROR}, "success and an error"),
        ({"success": False, "error": ERROR}, "data without success"),
        ({"success": False, "data": None}, "'error' is no object"),
        ({"success": False, "data": None, "error": {**ERROR, "code": "404"}}, "error.code"),
        ({"success": False, "data": None, "error": {**ERROR, "code": True}}, "error.code"),
        ({"success": False, "data": None, "error": {**ERROR, "message": None}}, "'message' is no text"),
        ({"success": False, "data": None, "error": {**ERROR, "details": []}}, "error.details"),
        ({"meta": [1]}, "meta is no object"),
        ({"meta": {"latency_ms": -1}}, "latency_ms"),
        ({"meta": {"latency_ms": True}}, "latency_ms"),
        ({"meta": {"version": 1}}, "version"),
        ({"meta": {"truncated": "yes"}}, "truncated"),
    ],
)
def test_what_breaks_a_constraint_is_refused_with_the_reason(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(NotNormalised, match=why):
        from_plain(normal(**changes))


@pytest.mark.parametrize("name", ["success", "skill_id", "trace_id", "data", "error"])
def test_no_field_may_be_missing(name: str) -> None:
    plain = normal()
    del plain[name]
    with pytest.raises(NotNormalised, match=f"'{name}' is missing"):
        from_plain(plain)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>502</html>", "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b"[" * 100_000, "too deeply"),
        (b"1" * 10_000, "too long"),
    ],
)
def test_what_is_no_strict_json_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(NotNormalised, match=why):
        read_json(body)


def test_an_answer_that_is_none_is_shown_in_part() -> None:
    with pytest.raises(BadSkillOutput, match="answered 500") as caught:
        read_result(b"<html>" + b"x" * 10_000, status=500)
    assert caught.value.details["status"] == 500
    assert str(caught.value.details["excerpt"]).startswith("<html>xxx")
    assert len(str(caught.value.details["excerpt"])) == LONGEST_EXCERPT + 1


def test_success_with_the_status_of_an_error_is_refused() -> None:
    with pytest.raises(BadSkillOutput, match="HTTP status does not"):
        read_result(json.dumps(normal()).encode(), status=500)


def test_a_failure_is_an_exception_only_for_those_who_ask() -> None:
    result = from_plain(normal(success=False, data=None, error=ERROR))
    with pytest.raises(SkillFailed, match="echo: no such skill") as caught:
        unwrap(result)
    assert caught.value.result is result
    assert caught.value.failure.code == 404
    assert caught.value.details == {"reason": "UNKNOWN_SKILL", "code": 404}


def test_success_without_data_is_an_empty_object() -> None:
    assert unwrap(from_plain(normal(data=None))) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys((*normal(), "more"), JSON)), st.integers(100, 599))
def test_whatever_a_host_answers_is_a_result_or_refused(plain: dict[str, Any], status: int) -> None:
    body = json.dumps(plain).encode()
    with suppress(BadSkillOutput):
        found = read_result(body, status=status)
        assert from_plain(found.plain()) == found


def test_an_excerpt_never_fails() -> None:
    assert excerpt(b"ok") == "ok"
    assert excerpt(b"\xff") == "\ufffd"


def test_only_an_object_is_an_object() -> None:
    assert object_of({"a": 1}, "it") == {"a": 1}
    with pytest.raises(NotNormalised, match="it is no object"):
        object_of("text", "it")
