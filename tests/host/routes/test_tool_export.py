"""Skills as tools for models."""

import re
from typing import Any

import pytest

from openskills.errors import InvalidArgument
from openskills.host.registration import Registration
from openskills.host.routes.tool_export import FORMS, tools

SCHEMA: dict[str, Any] = {"properties": {"query": {"type": "string"}}, "required": ["query"]}
SEARCH = Registration("file_search", "cli:python", "x", "0.1.0", "Finds files.", input_schema=SCHEMA)
PLAIN = Registration("plain", "inproc", "a:b", "0.1.0", output_schema={"type": "object"})
WHOLE = {"type": "object", **SCHEMA}


def test_each_form_is_what_its_vendor_takes() -> None:
    assert tools([SEARCH], "openai") == [
        {"type": "function", "name": "file-search", "description": "Finds files.", "parameters": WHOLE, "strict": False}
    ]
    assert tools([SEARCH], "openai-chat") == [
        {
            "type": "function",
            "function": {"name": "file-search", "description": "Finds files.", "parameters": WHOLE},
        }
    ]
    assert tools([SEARCH], "anthropic") == [
        {"name": "file-search", "description": "Finds files.", "input_schema": WHOLE}
    ]
    assert tools([SEARCH], "mcp") == [{"name": "file-search", "description": "Finds files.", "inputSchema": WHOLE}]


def test_a_skill_without_a_schema_takes_any_object() -> None:
    assert tools([PLAIN], "mcp")[0]["inputSchema"] == {"type": "object", "properties": {}, "additionalProperties": True}
    assert tools([PLAIN], "mcp")[0]["outputSchema"] == {"type": "object"}


@pytest.mark.parametrize("form", FORMS)
def test_names_fit_what_models_may_be_told(form: str) -> None:
    for tool in tools([SEARCH, PLAIN], form):
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", tool.get("function", tool)["name"])


def names(*ids: str, known: tuple[str, ...] = ()) -> list[str]:
    made = tools([Registration(each, "inproc", "a:b", "0.1.0") for each in ids], "mcp", known=known)
    return [tool["name"] for tool in made]


def test_two_skills_never_have_the_same_name() -> None:
    assert names("a_b", "a-b", "c_d") == ["a_b", "a-b", "c-d"]
    assert names("a_b-c", "a-b_c") == ["a_b-c", "a-b_c"]


def test_a_name_never_means_a_skill_that_is_not_among_the_tools() -> None:
    assert names("a_b", known=("a_b", "a-b")) == ["a_b"]
    assert names("a_b", known=("a_b", "c-d")) == ["a-b"]


def test_a_form_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(InvalidArgument, match="openai, openai-chat, anthropic, mcp"):
        tools([], "gemini")
