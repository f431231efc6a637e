"""Tools of ours as tools of LangChain."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

# Tools read the annotations of their functions, so this is needed when they are defined.
from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool

from openskills.adapters.langchain.runtime_home import Home
from openskills.adapters.langchain.runtime_texts import ResultTexts
from openskills.runtime.session import SkillSession
from openskills.sync import run

Runtime = ToolRuntime[Any, Any]
InGraph: TypeAlias = Callable[[str, Mapping[str, Any], Runtime], Coroutine[Any, Any, Any]]
"""What a call in a graph comes to: the name of the tool, its arguments, and where it is called."""
HomeOf: TypeAlias = Callable[[Runtime], Home]
"""Where a call in a graph is to be done."""

_ARGUMENTS, _RUNTIME = "arguments", "runtime"


class SkillTool(StructuredTool):
    """A tool that takes whatever a model writes: `SkillSession.call` judges it and tells the model what is wrong."""

    def _parse_input(self, tool_input: str | dict[str, Any], tool_call_id: str | None) -> dict[str, Any]:  # noqa: ARG002
        given = {} if isinstance(tool_input, str) else dict(tool_input)
        injected = {_RUNTIME: given.pop(_RUNTIME)} if isinstance(given.get(_RUNTIME), ToolRuntime) else {}
        return {_ARGUMENTS: tool_input if isinstance(tool_input, str) else given, **injected}


def tools(session: SkillSession) -> list[BaseTool]:
    """The tools of a session, for an agent that only takes tools: what is loaded stands in the results.

    Tell the model about the skills with `system_text(session)`. Call it where the session was opened: its tools may
    then be awaited anywhere, and invoked anywhere but in the thread of the loop that runs there.
    """
    home, texts = Home(), ResultTexts(session)
    return [_tool(session, described, home, texts) for described in session.tools("mcp")]


def graph_tool(described: Mapping[str, Any], door: InGraph, home_of: HomeOf) -> BaseTool:
    """A tool in the format of MCP, for a graph: its calls go through `door`, awaited ones in the loop of their home."""
    name = str(described["name"])

    def call(arguments: dict[str, Any], runtime: Runtime) -> Any:
        return run(door(name, arguments, runtime))

    async def calling(arguments: dict[str, Any], runtime: Runtime) -> Any:
        return await home_of(runtime).come_to(door(name, arguments, runtime))

    return _made(described, call, calling)


def _tool(session: SkillSession, described: Mapping[str, Any], home: Home, texts: ResultTexts) -> BaseTool:
    name = str(described["name"])

    async def work(arguments: dict[str, Any] | str) -> tuple[str, Mapping[str, Any]]:
        result = await session.call(name, arguments)
        return await texts.of(result), dict(result.data)

    def call(arguments: dict[str, Any] | str) -> tuple[str, Mapping[str, Any]]:
        return home.wait(work(arguments))

    async def calling(arguments: dict[str, Any] | str) -> tuple[str, Mapping[str, Any]]:
        return await home.come_to(work(arguments))

    return _made(described, call, calling, response_format="content_and_artifact")


def _made(described: Mapping[str, Any], call: Callable[..., Any], calling: Callable[..., Any], **more: Any) -> BaseTool:
    return SkillTool(
        name=described["name"],
        description=described["description"],
        args_schema=described["inputSchema"],
        func=call,
        coroutine=calling,
        **more,
    )
