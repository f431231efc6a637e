"""Skills of the host as tools for models: OpenAI, Anthropic, MCP. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from openskills.errors import InvalidArgument
from openskills.host.registration import Registration

ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
"""The input of a skill that says nothing about it."""


def tools(registrations: Iterable[Registration], form: str) -> list[dict[str, Any]]:
    """Each skill as a tool. Names have `-` for `_`, as the Agent Skills specification wants; the host knows both.

    Raises `InvalidArgument` for a form that is not known.
    """
    made = FORMS.get(form)
    if made is None:
        raise InvalidArgument("format", f"{form[:50]!r} is not one of {', '.join(FORMS)}")
    return [made(registration) for registration in registrations]


def _openai(registration: Registration) -> dict[str, Any]:
    return {
        "type": "function",
        "name": _name(registration),
        "description": registration.description,
        "parameters": _schema(registration),
        "strict": False,
    }


def _openai_chat(registration: Registration) -> dict[str, Any]:
    function = {key: value for key, value in _openai(registration).items() if key not in {"type", "strict"}}
    return {"type": "function", "function": function}


def _anthropic(registration: Registration) -> dict[str, Any]:
    return {
        "name": _name(registration),
        "description": registration.description,
        "input_schema": _schema(registration),
    }


def _mcp(registration: Registration) -> dict[str, Any]:
    tool = {"name": _name(registration), "description": registration.description, "inputSchema": _schema(registration)}
    if registration.output_schema is not None:
        tool["outputSchema"] = dict(registration.output_schema)
    return tool


FORMS: Mapping[str, Callable[[Registration], dict[str, Any]]] = {
    "openai": _openai,
    "openai-chat": _openai_chat,
    "anthropic": _anthropic,
    "mcp": _mcp,
}


def _name(registration: Registration) -> str:
    return registration.id.replace("_", "-")


def _schema(registration: Registration) -> dict[str, Any]:
    # Every form wants an object at the top.
    return {"type": "object", **(registration.input_schema or ANYTHING)}
