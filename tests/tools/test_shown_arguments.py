"""Arguments for those who watch."""

import json
from typing import Any

import pytest

from openskills.tools.shown_arguments import shown_arguments

CALL = {"skill": "a", "command": "cat", "env": {"PASSWORD": "hunter2"}, "stdin": "hunter2", "chars": "hunter2"}


@pytest.mark.parametrize("arguments", [CALL, json.dumps(CALL)])
def test_variables_are_told_by_name_and_input_by_its_length(arguments: dict[str, Any] | str) -> None:
    assert json.loads(shown_arguments(arguments)) == {
        "skill": "a",
        "command": "cat",
        "env": {"PASSWORD": "[7 characters]"},
        "stdin": "[7 characters]",
        "chars": "[7 characters]",
    }


def test_variables_that_were_written_as_text_are_not_told_at_all() -> None:
    assert shown_arguments({"env": '{"A": "hunter2"}'}) == '{"env": "[16 characters]"}'


def nested(depth: int) -> dict[str, Any]:
    """Objects in objects."""
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    "odd", [None, "", "{", "[" * 100_000, "[1]", nested(100_000), {("t",): 1}, {"x": object()}, {"x": "\ud800"}, {1: 2}]
)
def test_whatever_a_model_writes_can_be_told(odd: Any) -> None:
    assert len(shown_arguments(odd)) < 200


def test_what_cannot_be_read_is_described_without_repeating_it() -> None:
    assert shown_arguments('{"stdin": "hunter2"') == "[19 characters] that are no JSON"
    assert shown_arguments("[1]") == "[list, which is no JSON object]"
