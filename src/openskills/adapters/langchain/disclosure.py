"""Loading a skill discloses its tools, as reading its file does.

Upstream looks for results of `read_file`. It is shown the conversation as if calls of `load_skill` were such; what it
passes on has the real ones again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage

from openskills.adapters.langchain.marks import mark_of
from openskills.adapters.langchain.metadata import SkillMetadata

INCLUDE_TOOLS = "include_tools"


def with_tools(skills: Sequence[SkillMetadata]) -> list[SkillMetadata]:
    """The skills that come with tools."""
    return [skill for skill in skills if (skill.get("metadata") or {}).get(INCLUDE_TOOLS)]


class ReadsForLoads:
    """A conversation in which loads look like reads."""

    def __init__(self, messages: Sequence[AnyMessage], skills: Sequence[SkillMetadata]) -> None:
        paths = {skill["name"]: skill["path"] for skill in skills}
        loads = _loads(messages, paths) if paths else {}
        self._real: dict[int, AnyMessage] = {}
        self.messages = [self._as_read(message, loads) for message in messages] if loads else list(messages)

    def real(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """The messages as they were, with whatever was put between them."""
        if not self._real:
            return list(messages)
        return [self._real.get(id(message), message) for message in messages]

    def _as_read(self, message: AnyMessage, loads: Mapping[str, str]) -> AnyMessage:
        if not isinstance(message, AIMessage) or not any(call["id"] in loads for call in message.tool_calls):
            return message
        calls = [
            {**call, "name": "read_file", "args": {"file_path": loads[call["id"]]}} if call["id"] in loads else call
            for call in cast("list[dict[str, Any]]", message.tool_calls)
        ]
        read = message.model_copy(update={"tool_calls": calls})
        self._real[id(read)] = message
        return read


def _loads(messages: Sequence[AnyMessage], paths: Mapping[str, str]) -> dict[str, str]:
    """The paths of the skills that were loaded, by the id of the call."""
    found: dict[str, str] = {}
    for message in messages:
        mark = mark_of(message) if message.additional_kwargs else None
        call = getattr(message, "tool_call_id", None)
        if mark and mark.loads and call and mark.skill in paths:
            found[call] = paths[mark.skill]
    return found
