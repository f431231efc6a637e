"""Messages in OpenAI's chat format, read without trusting them: nothing here raises, nothing changes a message.

A field is looked up in a mapping, or on an object such as those that OpenAI's client returns.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

Message: TypeAlias = Mapping[str, Any]

SYSTEM_ROLES = ("system", "developer")
TOOL_ROLES = ("tool", "function")


_type: Callable[[object], type[object]] = type


class ToolCall(NamedTuple):
    """A call as the model wrote it. `arguments` is JSON text, or what such text stands for."""

    id: str
    name: str
    arguments: object


def get(value: Any, name: str) -> object:
    """A field, or None."""
    kind = _type(value)
    # Almost everything is a plain dictionary, and this is asked hundreds of times for a request.
    if kind is dict or issubclass(kind, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def string(value: Any, name: str) -> str:
    """A field that is text; empty for everything else."""
    found = value.get(name) if _type(value) is dict else get(value, name)
    return found if isinstance(found, str) else ""


def items(value: Any) -> Sequence[object]:
    """The entries of a list; none of anything else."""
    kind = _type(value)
    return value if kind is list or issubclass(kind, list | tuple) else ()


def text_of(message: object) -> str:
    """The text of a message, whether it is one or comes in parts."""
    content = get(message, "content")
    return content if isinstance(content, str) else "\n".join(texts_of(content))


def texts_of(content: object) -> tuple[str, ...]:
    """The texts in a list of parts."""
    found = (part if isinstance(part, str) else get(part, "text") for part in items(content))
    return tuple(text for text in found if isinstance(text, str))


def calls_of(message: object) -> list[ToolCall]:
    """The calls of an assistant's message, a legacy `function_call` among them, in its order."""
    calls, legacy = items(get(message, "tool_calls")), get(message, "function_call")
    if not calls and legacy is None:
        return []
    found = [
        ToolCall(string(call, "id"), string(function, "name"), get(function, "arguments"))
        for call in calls
        if (function := get(call, "function")) is not None
    ]
    if legacy is not None:
        found.append(ToolCall("", string(legacy, "name"), get(legacy, "arguments")))
    return found


def json_object(value: object) -> Mapping[str, object]:
    """An object from JSON text, or one that is there already; empty for everything else."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value)
    if not isinstance(value, str):
        return {}
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


def takes_text(message: object) -> bool:
    """Whether text can be put at the end of a message: it is a mapping whose content is text, parts, or nothing."""
    if not isinstance(message, Mapping):
        return False
    content = cast("Message", message).get("content")
    return content is None or isinstance(content, (str, list, tuple))


def leading(messages: Sequence[object]) -> int:
    """How many system messages a conversation begins with."""
    count = 0
    for message in messages:
        if get(message, "role") not in SYSTEM_ROLES:
            break
        count += 1
    return count
