"""Tool calls as models make them, made fit to be kept in a conversation."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from openskills.agent.model import ModelRequest, ToolCall
from openskills.prompt.messages import calls_of, get, json_object, string

NO_NAME = "unnamed_tool"
INVALID = "invalid_json"
"""Under this name the arguments of a call that are no JSON object are shown to models that take nothing else."""

_STRANGE = re.compile(r"[^A-Za-z0-9_-]")
_MOST = 64
_FEW = 16


def settled(calls: Iterable[ToolCall], request: ModelRequest) -> tuple[ToolCall, ...]:
    """The calls of an answer, each with a name that providers take back and an id that no other call has.

    Servers repeat ids, leave them out, or begin to count anew with every answer; models invent names. A name that is
    offered stays as it is. Arguments stay what the model wrote; none at all is `{}`.
    """
    offered = {string(get(tool, "function"), "name") for tool in request.tools}
    taken = {call.id for message in request.messages for call in calls_of(message)}
    found: list[ToolCall] = []
    for call in calls:
        own = free_id(call.id, taken)
        taken.add(own)
        name = call.name if call.name in offered else clean_name(call.name)
        found.append(replace(call, id=own, name=name, arguments=call.arguments or "{}"))
    return tuple(found)


def free_id(wanted: str, taken: set[str]) -> str:
    """The id itself, or one with a number at its end that is not taken: the first, unless many are."""
    own, number = wanted or "call", 1
    while own in taken:
        # A server that gives one id to thousands of calls must not make each look at all the others.
        number = number + 1 if number < _FEW else max(number, len(taken)) + 1
        own = f"{wanted or 'call'}-{number}"
    return own


def clean_name(name: str) -> str:
    """A name that every provider takes back: one with dots or spaces in it would spoil all later requests."""
    return _STRANGE.sub("_", name)[:_MOST] or NO_NAME


def object_of(arguments: object) -> dict[str, Any]:
    """The arguments of a call as an object; what is none is shown as it is, under one name."""
    found = dict(json_object(arguments))
    if found or arguments is None or isinstance(arguments, dict):
        return found
    text = str(arguments).strip()
    return {} if text in {"", "{}"} or _is_empty_object(text) else {INVALID: text}


def _is_empty_object(text: str) -> bool:
    return re.fullmatch(r"\{\s*\}", text) is not None
