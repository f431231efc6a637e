"""The Normalized Skill Result around what a skill gives back."""

import json
from typing import Any

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.skillkit.answer import Answer, Plain, answered, error_of, result
from openskills.skillkit.refused import Refused


def written(answer: Answer | None, error: Plain | None = None) -> dict[str, Any]:
    line = result(answer, error, skill_id="s", trace_id="t", version="1.2.3", latency_ms=1.23456)
    assert line.endswith(b"}\n")
    return json.loads(line)


def test_data_makes_a_success() -> None:
    assert written(Answer({"a": "é"})) == {
        "success": True,
        "skill_id": "s",
        "trace_id": "t",
        "data": {"a": "é"},
        "error": None,
        "meta": {"latency_ms": 1.235, "version": "1.2.3"},
    }


def test_what_was_left_out_and_notes_are_in_meta_and_cannot_replace_what_is_ours() -> None:
    answer = Answer({}, truncated=True, notes={"files": 3, "version": "x", "latency_ms": -1})
    assert written(answer)["meta"] == {"files": 3, "latency_ms": 1.235, "version": "1.2.3", "truncated": True}


def test_an_error_makes_a_failure_with_its_word() -> None:
    for error, code, word in (
        (Refused("INVALID_ARGUMENT", "no", field="x"), 400, "INVALID_ARGUMENT"),
        (InvalidArgument("x", "no"), 400, "INVALID_ARGUMENT"),
        (ForbiddenPath("no"), 403, "FORBIDDEN_PATH"),
    ):
        found = written(None, error_of(error))
        assert (found["success"], found["data"]) == (False, None)
        assert (found["error"]["code"], found["error"]["details"]["reason"]) == (code, word)


def test_data_that_is_no_json_becomes_an_error() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    for data in ({"a": object()}, {"a": float("nan")}, {"a": {1, 2}}, {("a", "b"): 1}, endless):
        found = written(Answer(data))  # pyright: ignore[reportArgumentType]
        assert found["error"]["code"] == 500
        assert found["error"]["message"].startswith("the skill returned what is no JSON")


def test_half_a_character_does_not_break_the_line() -> None:
    assert written(Answer({"name": "a\udcffb"}))["data"] == {"name": "a?b"}


def test_only_objects_are_answers() -> None:
    given, error = answered([1])
    assert given is None
    assert error is not None
    assert error["message"] == "the skill returned list; it has to return an object (a dict)"
    given, error = answered({"a": 1})
    assert given is not None
    assert (given.data, error) == ({"a": 1}, None)
