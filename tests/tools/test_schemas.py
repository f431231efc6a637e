"""Tools in the formats of others."""

import json
from typing import Any

import pytest

from openskills.errors import InvalidArgument
from openskills.tools.load import SKILL_LOAD
from openskills.tools.schemas import ENUM_LIMIT, described, parameters_of
from openskills.tools.search import SKILL_SEARCH
from openskills.tools.table import TOOLS


def test_each_format_has_its_own_words_for_the_same() -> None:
    parameters = parameters_of(SKILL_LOAD)
    openai, anthropic, mcp = (described(SKILL_LOAD, name) for name in ("openai", "anthropic", "mcp"))
    assert openai["type"] == "function"
    assert openai["function"]["parameters"] == anthropic["input_schema"] == mcp["inputSchema"] == parameters
    assert openai["function"]["name"] == anthropic["name"] == mcp["name"] == "skill_load"
    with pytest.raises(InvalidArgument, match="openai, anthropic, mcp"):
        described(SKILL_LOAD, "gemini")


def test_names_of_few_skills_are_an_enumeration_in_a_stable_order() -> None:
    skill = parameters_of(SKILL_LOAD, ["b", "a"])["properties"]["skill"]
    assert skill["enum"] == ["a", "b"]
    many = [f"s{number}" for number in range(ENUM_LIMIT + 1)]
    assert "enum" not in parameters_of(SKILL_LOAD, many)["properties"]["skill"]
    assert "enum" not in parameters_of(SKILL_LOAD)["properties"]["skill"]
    assert "skill" not in parameters_of(SKILL_SEARCH, ["a"])["properties"]


@pytest.mark.parametrize("name", TOOLS)
def test_every_schema_is_plain_small_and_described(name: str) -> None:
    parameters = parameters_of(TOOLS[name])
    text = json.dumps(parameters)
    assert not any(word in text for word in ("$ref", "$defs", '"title"', '"null"'))
    assert parameters["type"] == "object"
    assert all("description" in field for field in parameters["properties"].values())
    assert len(TOOLS[name].description) < 500


@pytest.mark.parametrize("name", TOOLS)
def test_every_schema_is_valid_json_schema(name: str) -> None:
    _check(parameters_of(TOOLS[name]))


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
