"""What no skill may fall for: invalid inputs, and wrong types in every field."""

import json
from typing import Any

import jsonschema_rs
import pytest

from tests.skills_cli.calling import IDS, call, manifest, send

GOOD: dict[str, dict[str, Any]] = {
    "echo": {"text": "x"},
    "file_search": {"query": "zzz"},
    "calculator": {"numbers": [1, 2], "ops": ["sum"]},
    "log_transform": {"input_path": "logs/app.log"},
}
STRANGE: tuple[Any, ...] = (None, True, -1, 1.5, 10**30, "", "😀 \0 ../..", [], [[[]]], ["x", 1], {}, {"a": {"b": []}})

REQUESTS = {
    "nothing": b"",
    "blanks": b" \n\n ",
    "no JSON": b"hello",
    "half of it": b'{"input": {"text": "x"',
    "two of them": b'{"input": {}} {"input": {}}',
    "a list": b"[1, 2]",
    "null": b"null",
    "no input": b'{"text": "x"}',
    "input is a list": b'{"input": [1]}',
    "input is a text": b'{"input": "x"}',
    "NaN": b'{"input": {"text": NaN}}',
    "infinity": b'{"input": {"text": -Infinity}}',
    "a key twice": b'{"input": {"text": "x", "text": "y"}}',
    "half a character": b'{"input": {"text": "\\ud800"}}',
    "half a character in a key": b'{"input": {"\\uDC00": "x"}}',
    "not UTF-8": b'{"input": {"text": "\xff\xfe"}}',
    "a zero": b'{"input": {"text": "\0"}}',
    "very deep": b'{"input": {"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "very many digits": b'{"input": {"text": ' + b"9" * 100_000 + b"}}",
    "too large": b'{"input": {"text": "' + b"x" * (16 * 1024 * 1024) + b'"}}',
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_that_is_none_is_refused(kind: str) -> None:
    word, message = send("echo", REQUESTS[kind]).refusal
    assert word == "INVALID_ARGUMENT"
    assert len(message) < 300


@pytest.mark.parametrize("kind", ["nothing", "NaN", "a key twice", "very deep", "too large"])
def test_a_skill_with_exact_numbers_refuses_the_same(kind: str) -> None:
    assert send("calculator", REQUESTS[kind]).refusal[0] == "INVALID_ARGUMENT"


def test_a_byte_order_mark_before_a_request_is_nothing_bad() -> None:
    assert send("echo", b'\xef\xbb\xbf{"input": {"text": "x"}}').data == {"echoed": "x"}


@pytest.mark.parametrize("skill", IDS)
def test_strange_values_in_any_field_are_answered_as_the_schema_says(skill: str) -> None:
    schema = manifest(skill)["input_schema"]
    fits = jsonschema_rs.validator_for(schema)
    for field in schema["properties"]:
        for value in STRANGE:
            given = {**GOOD[skill], field: value}
            reply = call(skill, given)
            if not fits.is_valid(given):
                assert not reply.result["success"], given
                assert reply.refusal[0] in ("INVALID_ARGUMENT", "FORBIDDEN_PATH"), (given, reply.refusal)
                assert reply.refusal[1].startswith(field), reply.refusal
            elif not reply.result["success"]:
                assert reply.refusal[0] != "INTERNAL", (given, reply.refusal)


@pytest.mark.parametrize("skill", IDS)
def test_unknown_fields_are_refused_by_name(skill: str) -> None:
    word, message = call(skill, {**GOOD[skill], "surprise": 1}).refusal
    assert word == "INVALID_ARGUMENT"
    assert message.startswith("surprise: unknown field")


@pytest.mark.parametrize("skill", IDS)
def test_required_fields_are_missed_by_name(skill: str) -> None:
    for field in manifest(skill)["input_schema"]["required"]:
        given = {name: value for name, value in GOOD[skill].items() if name != field}
        assert call(skill, given).refusal == ("INVALID_ARGUMENT", f"{field}: required")


def test_a_name_of_an_unknown_field_does_not_fill_the_answer() -> None:
    assert len(json.dumps(call("echo", {"text": "x", "y" * 100_000: 1}).result)) < 2000
