"""What a model wrote, as the arguments of a tool. Pure."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from openskills.errors import InvalidArgument
from openskills.tools.tool import Arguments, Tool

A = TypeVar("A", bound=Arguments)

_SHOWN = 200


def decode(tool: Tool[A], arguments: Mapping[str, Any] | str | None) -> A:
    """Arguments as an object or as JSON text. Raises `InvalidArgument` with the field and what is wrong."""
    try:
        return tool.arguments.model_validate(_object(arguments))
    except ValidationError as error:
        raise _refusal(tool, error) from None


def named_skill(arguments: Mapping[str, Any] | str | None) -> object:
    """What stands for the skill in the arguments of a call; None when nothing does, or nobody can tell."""
    try:
        return _object(arguments).get("skill")
    except InvalidArgument:
        return None


def _object(arguments: Mapping[str, Any] | str | None) -> dict[str, Any]:
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if not isinstance(arguments, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a model's client may send anything
        raise InvalidArgument("arguments", f"are a {type(arguments).__name__}; send one JSON object")
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        # A number of more than 4,300 digits is a ValueError, too.
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:_SHOWN]
        raise InvalidArgument("arguments", f"are no JSON ({reason}); send one JSON object") from None
    if not isinstance(value, dict):
        raise InvalidArgument("arguments", f"are a JSON {type(value).__name__}; send one JSON object")
    return cast("dict[str, Any]", value)


def _refusal(tool: Tool[Any], error: ValidationError) -> InvalidArgument:
    first = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(map(str, first["loc"])) or "arguments"
    known = ", ".join(tool.arguments.model_fields)
    match first["type"]:
        case "missing":
            return InvalidArgument(field, f"is missing; {tool.name} takes {known}")
        case "extra_forbidden":
            return InvalidArgument(field[:_SHOWN], f"is no field of {tool.name}; it takes {known}")
        case _:
            shown = repr(first.get("input"))
            shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
            return InvalidArgument(field, f"{first['msg']}; it was {shown}")
