"""Tools as model providers and protocols want to be told about them. Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, cast

from openskills.errors import InvalidArgument
from openskills.tools.tool import AnyTool

ENUM_LIMIT = 32
"""With more skills than this, a schema does not list their names."""


class SchemaFormat(StrEnum):
    """Whose format."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    MCP = "mcp"


def described(
    tool: AnyTool,
    format: SchemaFormat | str = SchemaFormat.OPENAI,  # noqa: A002
    *,
    skills: Sequence[str] = (),
) -> dict[str, Any]:
    """A tool in one of the formats. With `skills`, at most 256 of them, its `skill` is one of these names."""
    parameters = parameters_of(tool, skills)
    try:
        wanted = SchemaFormat(format)
    except ValueError:
        raise InvalidArgument("format", f"{format!r} is unknown; use one of {', '.join(SchemaFormat)}") from None
    match wanted:
        case SchemaFormat.OPENAI:
            function = {"name": tool.name, "description": tool.description, "parameters": parameters}
            return {"type": "function", "function": function}
        case SchemaFormat.ANTHROPIC:
            return {"name": tool.name, "description": tool.description, "input_schema": parameters}
        case SchemaFormat.MCP:
            return {"name": tool.name, "description": tool.description, "inputSchema": parameters}


def parameters_of(tool: AnyTool, skills: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON schema of a tool's arguments: no titles, no references, optional fields simply not required."""
    whole = tool.arguments.model_json_schema()
    cleaned = _cleaned(whole, whole.get("$defs", {}))
    cleaned.pop("description", None)
    cleaned.setdefault("properties", {})
    skill = cleaned["properties"].get("skill")
    if skill is not None and 0 < len(skills) <= ENUM_LIMIT:
        skill["enum"] = sorted(skills)
    return cleaned


def _cleaned(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_cleaned(one, definitions) for one in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    given = cast("dict[str, Any]", node)
    if "$ref" in given:
        target = definitions[given["$ref"].rpartition("/")[2]]
        return _cleaned({**target, **{key: one for key, one in given.items() if key != "$ref"}}, definitions)
    options = [one for one in given.get("anyOf", ()) if one != {"type": "null"}]
    if len(options) == 1:
        # `null` is accepted, but nobody has to be told.
        rest = {key: one for key, one in given.items() if key != "anyOf"}
        return _cleaned({**options[0], **rest}, definitions)
    found: dict[str, Any] = {}
    for key, one in given.items():
        if key == "properties":
            found[key] = {name: _cleaned(each, definitions) for name, each in one.items()}
        elif key not in ("title", "$defs") and not (key == "default" and one is None):
            found[key] = _cleaned(one, definitions)
    return found
