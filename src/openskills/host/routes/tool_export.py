"""Skills of the host as tools for models: OpenAI, Anthropic, MCP. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from openskills.errors import InvalidArgument
from openskills.host.registration import Registration

ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
"""The input of a skill that says nothing about it."""


def tools(registrations: Iterable[Registration], form: str, *, known: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Each skill as a tool. Names have `-` for `_`, as the Agent Skills specification wants; the host knows both.

    Where two ids differ in nothing else, both stay as they are. `known` are ids that the host has beside these.

    Raises `InvalidArgument` for a form that is not known.
    """
    made = FORMS.get(form)
    if made is None:
        raise InvalidArgument("format", f"{form[:50]!r} is not one of {', '.join(FORMS)}")
    offered = list(registrations)
    taken = Counter(map(_dashed, {*known, *(registration.id for registration in offered)}))
    return [
        made(registration, registration.id if taken[_dashed(registration.id)] > 1 else _dashed(registration.id))
        for registration in offered
    ]


def _openai(registration: Registration, name: str) -> dict[str, Any]:
    return {
        "type": "function",
        "name": name,
        "description": registration.description,
        "parameters": _schema(registration),
        "strict": False,
    }


def _openai_chat(registration: Registration, name: str) -> dict[str, Any]:
    function = {key: value for key, value in _openai(registration, name).items() if key not in {"type", "strict"}}
    return {"type": "function", "function": function}


def _anthropic(registration: Registration, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": registration.description,
        "input_schema": _schema(registration),
    }


def _mcp(registration: Registration, name: str) -> dict[str, Any]:
    tool = {"name": name, "description": registration.description, "inputSchema": _schema(registration)}
    if registration.output_schema is not None:
        tool["outputSchema"] = dict(registration.output_schema)
    return tool


FORMS: Mapping[str, Callable[[Registration, str], dict[str, Any]]] = {
    "openai": _openai,
    "openai-chat": _openai_chat,
    "anthropic": _anthropic,
    "mcp": _mcp,
}


def _dashed(skill_id: str) -> str:
    return skill_id.replace("_", "-")


def _schema(registration: Registration) -> dict[str, Any]:
    # Every form wants an object at the top.
    return {"type": "object", **(registration.input_schema or ANYTHING)}
