"""Session tools as LangChain tools, and conversion of messages between LangChain and sessions."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeAlias, cast

from langchain.tools import ToolRuntime
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.tools import BaseTool, StructuredTool

from openskills.concurrency import HomeLoop
from openskills.runtime.session import ResultTexts, SkillSession
from openskills.sync import run


def system_text(session: SkillSession) -> str:
    """The list of skills and how to use them, for the system message of an agent with `tools(session)`."""
    sent = session.context([])
    return str(sent[0]["content"]) if sent else ""


Runtime = ToolRuntime[Any, Any]
GraphCall: TypeAlias = Callable[[str, Mapping[str, Any], Runtime], Coroutine[Any, Any, Any]]
"""Calls a tool in a graph: its name, its arguments, and the LangChain runtime."""
HomeLookup: TypeAlias = Callable[[Runtime], HomeLoop]
"""Returns the loop in which to run a call."""

_ARGUMENTS, _RUNTIME = "arguments", "runtime"


class SkillTool(StructuredTool):
    """A tool that passes its input on unvalidated: `SkillSession.call` validates it and reports errors to the model."""

    def _parse_input(self, tool_input: str | dict[str, Any], tool_call_id: str | None) -> dict[str, Any]:  # noqa: ARG002
        given = {} if isinstance(tool_input, str) else dict(tool_input)
        injected = {_RUNTIME: given.pop(_RUNTIME)} if isinstance(given.get(_RUNTIME), ToolRuntime) else {}
        return {_ARGUMENTS: tool_input if isinstance(tool_input, str) else given, **injected}


def tools(session: SkillSession) -> list[BaseTool]:
    """The tools of a session, for an agent without the middleware: loaded texts are in the results.

    Describe the skills to the model with `system_text(session)`. Call this in the loop in which the session was opened;
    the tools can then be awaited anywhere, and invoked anywhere but in the thread of that loop.
    """
    home, texts = HomeLoop(), ResultTexts(session)
    return [_build_session_tool(session, described, home, texts) for described in session.tools("mcp")]


def build_graph_tool(described: Mapping[str, Any], call_tool: GraphCall, home_of: HomeLookup) -> BaseTool:
    """A LangChain tool from an MCP description; calls go to `call_tool`, async ones in the loop of `home_of`."""
    name = str(described["name"])

    def call(arguments: dict[str, Any], runtime: Runtime) -> Any:
        return run(call_tool(name, arguments, runtime))

    async def acall(arguments: dict[str, Any], runtime: Runtime) -> Any:
        return await home_of(runtime).run(call_tool(name, arguments, runtime))

    return _create_tool(described, call, acall)


def _build_session_tool(
    session: SkillSession, described: Mapping[str, Any], home: HomeLoop, texts: ResultTexts
) -> BaseTool:
    name = str(described["name"])

    async def work(arguments: dict[str, Any] | str) -> tuple[str, Mapping[str, Any]]:
        result = await session.call(name, arguments)
        return await texts.render(result), dict(result.data)

    def call(arguments: dict[str, Any] | str) -> tuple[str, Mapping[str, Any]]:
        return home.run_blocking(work(arguments))

    async def acall(arguments: dict[str, Any] | str) -> tuple[str, Mapping[str, Any]]:
        return await home.run(work(arguments))

    return _create_tool(described, call, acall, response_format="content_and_artifact")


def _create_tool(
    described: Mapping[str, Any], call: Callable[..., Any], acall: Callable[..., Any], **more: Any
) -> BaseTool:
    return SkillTool(
        name=described["name"],
        description=described["description"],
        args_schema=described["inputSchema"],
        func=call,
        coroutine=acall,
        **more,
    )


_INDEX_KEY = "langchain_place"
"""The index of the original message in a mapping; inserted ones have none."""
_SYSTEM_INDEX = -1


def to_mappings(system: SystemMessage | None, messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """A request as mappings for `SkillSession.context`."""
    first = [] if system is None else [{"role": "system", "content": system.content, _INDEX_KEY: _SYSTEM_INDEX}]
    return [*first, *({**_message_to_mapping(message), _INDEX_KEY: place} for place, message in enumerate(messages))]


def to_messages(
    sent: Sequence[Mapping[str, Any]], system: SystemMessage | None, messages: Sequence[AnyMessage]
) -> tuple[SystemMessage | None, list[AnyMessage]]:
    """Convert what a session made of `to_mappings(system, messages)` back to messages.

    Unchanged messages are the same objects. Text inserted before the first message is added to the system message,
    because some providers accept only one.
    """
    found: list[AnyMessage] = []
    for mapping in sent:
        place = mapping.get(_INDEX_KEY)
        if place == _SYSTEM_INDEX and system is not None:
            system = cast("SystemMessage", _update_message(system, mapping))
        elif isinstance(place, int):
            found.append(_update_message(messages[place], mapping))
        elif mapping.get("role") == "system" and not found:
            system = _extend_system(system, str(mapping["content"]))
        else:
            found += cast("list[AnyMessage]", convert_to_messages([dict(mapping)]))
    return system, found


def _message_to_mapping(message: BaseMessage) -> dict[str, Any]:
    if isinstance(message, HumanMessage):
        # A summary, or another message that middleware inserted, does not begin a turn.
        role = "context" if "lc_source" in message.additional_kwargs else "user"
        return {"role": role, "content": _add_file_names(message.content)}
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


def _add_file_names(content: str | list[Any]) -> str | list[Any]:
    """Content with the names of files in `filename`, where sessions look for them."""
    if isinstance(content, str):
        return content
    return [_add_file_name(cast("Mapping[str, Any]", part)) if isinstance(part, Mapping) else part for part in content]


def _add_file_name(part: Mapping[str, Any]) -> Mapping[str, Any]:
    if part.get("type") != "file" or "filename" in part:
        return part
    for place in ("extras", "metadata"):
        more = part.get(place)
        if isinstance(more, Mapping) and "filename" in more:
            return {**part, "filename": cast("Mapping[str, Any]", more)["filename"]}
    return part


def _update_message(message: AnyMessage, mapping: Mapping[str, Any]) -> AnyMessage:
    content = mapping["content"]
    given = _add_file_names(message.content) if isinstance(message, HumanMessage) else message.content
    return message if content == given else message.model_copy(update={"content": content})


def _extend_system(system: SystemMessage | None, text: str) -> SystemMessage:
    if system is None:
        return SystemMessage(text)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{text}" if system.content else text})
    return system.model_copy(update={"content": [*system.content, {"type": "text", "text": f"\n\n{text}"}]})
