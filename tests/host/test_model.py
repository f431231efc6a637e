"""What is wrong with a manifest is not the caller's fault."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import InvalidArgument, TooManyRequests
from openskills.host.model import (
    Failure,
    InvokeResult,
    ManifestFault,
    Outcome,
    failure_outcome,
    normalize_outcome,
    success_outcome,
)


def test_a_fault_of_a_manifest_names_the_field_and_does_not_blame_the_caller() -> None:
    failure = Failure.from_error(ManifestFault("entry", "is not a URL"))
    assert (failure.code, failure.message) == (422, "entry: is not a URL")
    assert failure.details == {"reason": "INVALID_SKILL", "retryable": False, "field": "entry"}


def result_of(outcome: Outcome) -> InvokeResult:
    return normalize_outcome(outcome, skill_id="echo", trace_id="demo-123", latency_ms=3.14159, version="0.1.0")


def test_what_worked_looks_as_the_document_has_it() -> None:
    assert result_of(success_outcome({"echoed": "hello"})).to_dict() == {
        "success": True,
        "skill_id": "echo",
        "trace_id": "demo-123",
        "data": {"echoed": "hello"},
        "error": None,
        "meta": {"latency_ms": 3.142, "version": "0.1.0"},
    }


def test_what_failed_has_no_data_and_the_http_status_of_its_code() -> None:
    found = result_of(failure_outcome(InvalidArgument("query", "is empty")))
    assert (found.success, found.status) == (False, 400)
    assert found.to_dict()["data"] is None
    assert found.to_dict()["error"] == {
        "code": 400,
        "message": "query: is empty",
        "details": {"reason": "INVALID_ARGUMENT", "retryable": False, "field": "query"},
    }


def test_when_to_come_back_is_for_the_header_and_not_for_the_details() -> None:
    failure = Failure.from_error(TooManyRequests("too many", retry_after=2.5))
    assert failure.retry_after == 2.5
    assert "retry_after" not in failure.details


def test_what_a_skill_says_beside_its_answer_goes_into_meta_but_cannot_replace_what_is_ours() -> None:
    outcome = success_outcome(
        {}, truncated=True, version="9", notes={"latency_ms": -1, "version": "x", "isolation": "none"}
    )
    assert result_of(outcome).to_dict()["meta"] == {
        "isolation": "none",
        "latency_ms": 3.142,
        "version": "9",
        "truncated": True,
    }


@given(st.booleans(), st.integers(400, 599), st.text())
def test_data_and_error_never_come_together(worked: bool, code: int, text: str) -> None:
    outcome = success_outcome({"x": text}) if worked else failure_outcome(Failure(code, text))
    plain = result_of(outcome).to_dict()
    assert (plain["data"] is None) == (plain["error"] is not None) == (not plain["success"])


def test_a_result_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        result_of(success_outcome({})).version = "2"  # pyright: ignore[reportAttributeAccessIssue]
