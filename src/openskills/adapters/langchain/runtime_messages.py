"""Messages of LangChain for a session of ours, and back. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)

_PLACE = "langchain_place"
"""Says which message a mapping was made of; what we insert has none."""
_SYSTEM = -1


def as_mappings(system: SystemMessage | None, messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """A request as the mappings that `SkillSession.context` takes."""
    first = [] if system is None else [{"role": "system", "content": system.content, _PLACE: _SYSTEM}]
    return [*first, *({**_mapping(message), _PLACE: place} for place, message in enumerate(messages))]


def as_messages(
    sent: Sequence[Mapping[str, Any]], system: SystemMessage | None, messages: Sequence[AnyMessage]
) -> tuple[SystemMessage | None, list[AnyMessage]]:
    """What a session made of `as_mappings(system, messages)`, as a system message and messages.

    Whatever did not change is the same object. What was inserted before the first message belongs to the system
    message, since there are providers that take only one.
    """
    found: list[AnyMessage] = []
    for mapping in sent:
        place = mapping.get(_PLACE)
        if place == _SYSTEM and system is not None:
            system = cast("SystemMessage", _with(system, mapping))
        elif isinstance(place, int):
            found.append(_with(messages[place], mapping))
        elif mapping.get("role") == "system" and not found:
            system = _extended(system, str(mapping["content"]))
        else:
            found += cast("list[AnyMessage]", convert_to_messages([dict(mapping)]))
    return system, found


def _mapping(message: BaseMessage) -> dict[str, Any]:
    if isinstance(message, HumanMessage):
        return {"role": _speaker(message), "content": _with_names(message.content)}
    if isinstance(message, AIMessage):
        calls = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["args"]}}
            for call in message.tool_calls
        ]
        return {"role": "assistant", "content": message.content, "tool_calls": calls}
    if isinstance(message, ToolMessage):
        name = {"name": message.name} if message.name else {}
        return {"role": "tool", "content": message.content, "tool_call_id": message.tool_call_id, **name}
    return {"role": message.type, "content": message.content}


def _speaker(message: HumanMessage) -> str:
    """A summary, or what else middleware puts in the mouth of the user, begins no turn."""
    return "context" if "lc_source" in message.additional_kwargs else "user"


def _with_names(content: str | list[Any]) -> str | list[Any]:
    """Content in which the names of files stand where sessions look for them."""
    if isinstance(content, str):
        return content
    return [_named(cast("Mapping[str, Any]", part)) if isinstance(part, Mapping) else part for part in content]


def _named(part: Mapping[str, Any]) -> Mapping[str, Any]:
    if part.get("type") != "file" or "filename" in part:
        return part
    for place in ("extras", "metadata"):
        more = part.get(place)
        if isinstance(more, Mapping) and "filename" in more:
            return {**part, "filename": cast("Mapping[str, Any]", more)["filename"]}
    return part


def _with(message: AnyMessage, mapping: Mapping[str, Any]) -> AnyMessage:
    content = mapping["content"]
    given = _with_names(message.content) if isinstance(message, HumanMessage) else message.content
    return message if content == given else message.model_copy(update={"content": content})


def _extended(system: SystemMessage | None, text: str) -> SystemMessage:
    if system is None:
        return SystemMessage(text)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{text}" if system.content else text})
    return system.model_copy(update={"content": [*system.content, {"type": "text", "text": f"\n\n{text}"}]})
