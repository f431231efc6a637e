"""What tools are made of, and the table of their names."""

import json
from dataclasses import fields
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from openskills.errors import InvalidArgument, UnknownSkill
from openskills.executors.staging.outputs import OutputSpec
from openskills.tokens import estimate_tokens
from openskills.tools.names import ToolProfile
from openskills.tools.registry import TOOLS, select_tools
from openskills.tools.skills import SKILL_LOAD, SKILL_SEARCH, SKILL_SELECT_DOCS, LoadArguments
from openskills.tools.tool import (
    ENUM_LIMIT,
    Arguments,
    TextList,
    ToolResult,
    build_parameters,
    decode,
    describe_tool,
    format_tools,
    redact_arguments,
)


class Wish(Arguments):
    name: str
    number: int = 3


def test_null_is_the_same_as_nothing() -> None:
    assert Wish.model_validate({"name": "a", "number": None}) == Wish(name="a")
    with pytest.raises(ValidationError, match="name"):
        Wish.model_validate({"name": None})


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(ValidationError, match="other"):
        Wish.model_validate({"name": "a", "other": 1})
    with pytest.raises(ValidationError):
        Wish.model_validate([1])


@pytest.mark.parametrize("given", [{"skill": "a"}, '{"skill": "a"}', {"skill": "a", "docs": None}])
def test_objects_and_json_text_are_taken(given: dict[str, Any] | str) -> None:
    assert decode(SKILL_LOAD, given) == LoadArguments(skill="a")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "skill: required; skill_load takes skill, docs, include_all_docs"),
        ("", "skill: required"),
        ("{", "not valid JSON"),
        (5, "got int"),
        (["x"], "got list"),
        ("[1]", "got a JSON list"),
        ('{"skill": ' + "1" * 5000 + "}", "not valid JSON"),
        ("[" * 100_000, "nested too deeply|not valid JSON"),
        ({"skill": "a", "doc": "x"}, "doc: unknown argument of skill_load; it takes"),
        ({"skill": ["a"]}, r"skill: .*got \['a'\]"),
        ({"skill": 3}, "skill: "),
        ({"skill": "a", "docs": [{"x" * 10_000: 1}]}, "docs.0: "),
    ],
)
def test_what_is_wrong_is_said_with_the_field(given: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as caught:
        decode(SKILL_LOAD, given)
    assert len(caught.value.message) < 600


def test_a_choice_names_what_there_is() -> None:
    with pytest.raises(InvalidArgument, match="'add', 'replace' or 'clear'"):
        decode(SKILL_SELECT_DOCS, {"skill": "a", "mode": "all"})
    with pytest.raises(InvalidArgument, match=r"limit: .*20"):
        decode(SKILL_SEARCH, {"query": "x", "limit": 1000})


_TEXTS: TypeAdapter[list[str]] = TypeAdapter(TextList)


def test_a_single_text_is_a_list_of_one() -> None:
    assert _TEXTS.validate_python("a") == ["a"]
    assert _TEXTS.validate_python(["a", "b"]) == ["a", "b"]


def test_values_that_are_not_text_are_refused() -> None:
    with pytest.raises(ValidationError):
        _TEXTS.validate_python([1])


def test_the_schema_says_a_list() -> None:
    assert _TEXTS.json_schema() == {"items": {"type": "string"}, "type": "array"}


def test_the_text_of_a_json_result_is_its_data_unescaped() -> None:
    result = ToolResult.from_data({"name": "图"})
    assert result.text == '{"name": "图"}'
    assert json.loads(result.text) == result.data


def test_a_failure_says_what_was_wrong_for_the_model_and_for_programs() -> None:
    result = ToolResult.from_error(UnknownSkill("pfd", ["pdf"]))
    assert result.text == "error: unknown skill 'pfd'; did you mean 'pdf'?"
    assert result.data["error"] == {
        "code": 404,
        "message": "unknown skill 'pfd'; did you mean 'pdf'?",
        "details": {"name": "pfd", "near": ["pdf"], "reason": "UNKNOWN_SKILL"},
    }
    assert isinstance(result.error, UnknownSkill)
    with pytest.raises(UnknownSkill):
        result.raise_for_error()
    assert ToolResult("fine").raise_for_error().text == "fine"
    assert ToolResult.from_error(InvalidArgument("x", "y")).changes == ()


def test_each_format_has_its_own_words_for_the_same() -> None:
    parameters = build_parameters(SKILL_LOAD)
    openai, anthropic, mcp = (describe_tool(SKILL_LOAD, name) for name in ("openai", "anthropic", "mcp"))
    assert openai["type"] == "function"
    assert openai["function"]["parameters"] == anthropic["input_schema"] == mcp["inputSchema"] == parameters
    assert openai["function"]["name"] == anthropic["name"] == mcp["name"] == "skill_load"
    with pytest.raises(InvalidArgument, match="openai, anthropic, mcp"):
        describe_tool(SKILL_LOAD, "gemini")


def test_names_of_few_skills_are_an_enumeration_in_a_stable_order() -> None:
    skill = build_parameters(SKILL_LOAD, ["b", "a"])["properties"]["skill"]
    assert skill["enum"] == ["a", "b"]
    many = [f"s{number}" for number in range(ENUM_LIMIT + 1)]
    assert "enum" not in build_parameters(SKILL_LOAD, many)["properties"]["skill"]
    assert "enum" not in build_parameters(SKILL_LOAD)["properties"]["skill"]
    assert "skill" not in build_parameters(SKILL_SEARCH, ["a"])["properties"]


@pytest.mark.parametrize("name", TOOLS)
def test_every_schema_is_plain_small_and_described(name: str) -> None:
    parameters = build_parameters(TOOLS[name])
    text = json.dumps(parameters)
    assert not any(word in text for word in ("$ref", "$defs", '"title"', '"null"'))
    assert parameters["type"] == "object"
    assert not any(word in text for word in ('"default": false', '"default": ""', '"minimum"'))
    assert 10 < len(TOOLS[name].description) < 300


def test_all_schemas_of_the_full_profile_have_at_most_1_800_tokens() -> None:
    names = select_tools(ToolProfile.FULL, None, search=False, executor=True, require_loaded=True)
    skills = [f"skill-name-{number}" for number in range(8)]
    text = format_tools([describe_tool(TOOLS[name], skills=skills) for name in names])
    assert estimate_tokens(text) <= 1_800
    assert text.count("skill-name-3") == 1


def test_no_argument_is_missing_in_the_schemas() -> None:
    for tool in TOOLS.values():
        hidden = {"poll_lines"}
        assert set(build_parameters(tool)["properties"]) == set(tool.arguments.model_fields) - hidden
    run = build_parameters(TOOLS["skill_run"])["properties"]
    assert set(run["outputs"]["properties"]) == {field.name for field in fields(OutputSpec)}


@pytest.mark.parametrize("name", TOOLS)
def test_every_schema_is_valid_json_schema(name: str) -> None:
    _check(build_parameters(TOOLS[name]))


def _check(node: Any) -> None:
    """The little of JSON schema that models understand: types, and only what belongs to them."""
    assert node.get("type") in ("object", "array", "string", "integer", "number", "boolean") or "anyOf" in node, node
    for each in node.get("properties", {}).values():
        _check(each)
    for each in node.get("anyOf", []):
        _check(each)
    if node.get("type") == "array":
        _check(node["items"])
    assert set(node.get("required", [])) <= set(node.get("properties", {}))


CALL = {"skill": "a", "command": "cat", "env": {"PASSWORD": "hunter2"}, "stdin": "hunter2", "chars": "hunter2"}


@pytest.mark.parametrize("arguments", [CALL, json.dumps(CALL)])
def test_variables_are_told_by_name_and_input_by_its_length(arguments: dict[str, Any] | str) -> None:
    assert json.loads(redact_arguments(arguments)) == {
        "skill": "a",
        "command": "cat",
        "env": {"PASSWORD": "[7 characters]"},
        "stdin": "[7 characters]",
        "chars": "[7 characters]",
    }


def test_variables_that_were_written_as_text_are_not_told_at_all() -> None:
    assert redact_arguments({"env": '{"A": "hunter2"}'}) == '{"env": "[16 characters]"}'


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
    assert len(redact_arguments(odd)) < 200


def test_what_cannot_be_read_is_described_without_repeating_it() -> None:
    assert redact_arguments('{"stdin": "hunter2"') == "[19 characters], not valid JSON"
    assert redact_arguments("[1]") == "[list, not a JSON object]"


def test_every_tool_is_found_under_its_own_name() -> None:
    assert all(name == tool.name for name, tool in TOOLS.items())
    assert len(TOOLS) == 14
