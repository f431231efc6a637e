"""What a tool answers."""

import json

import pytest

from openskills.errors import InvalidArgument, UnknownSkill
from openskills.tools.result import ToolResult


def test_the_text_of_a_json_result_is_its_data_unescaped() -> None:
    result = ToolResult.json({"name": "图"})
    assert result.text == '{"name": "图"}'
    assert json.loads(result.text) == result.data


def test_a_failure_says_what_was_wrong_for_the_model_and_for_programs() -> None:
    result = ToolResult.failed(UnknownSkill("pfd", ["pdf"]))
    assert result.text == "error: there is no skill named 'pfd'; did you mean 'pdf'?"
    assert result.data["error"] == {
        "code": 404,
        "message": "there is no skill named 'pfd'; did you mean 'pdf'?",
        "details": {"name": "pfd", "near": ["pdf"], "reason": "UNKNOWN_SKILL"},
    }
    assert isinstance(result.error, UnknownSkill)
    with pytest.raises(UnknownSkill):
        result.checked()
    assert ToolResult("fine").checked().text == "fine"
    assert ToolResult.failed(InvalidArgument("x", "y")).changes == ()
