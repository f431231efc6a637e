"""`mcp_tools`: the tools of an MCP server for an `Agent`."""

import asyncio
import json
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from openskills.agent.agent import ExtraTool
from openskills.arguments import check_arguments
from openskills.catalog.sources.mcp_client import McpAddress, McpConnection, command_address, parse_mcp_address
from openskills.concurrency import run_in_thread
from openskills.errors import InvalidArgument, LimitExceeded, SkillError
from openskills.settings import Settings
from openskills.tools.tool import ToolResult

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, ContentBlock
    from mcp_types import Tool as McpTool

MAX_TOOLS = 1000
MAX_DEFINITION_CHARACTERS = 100_000
MAX_RESULT_CHARACTERS = 200_000
_MAX_PAGES = 100
_INVALID = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)


@check_arguments
def mcp_tools(
    server: str | Sequence[str],
    *,
    prefix: str = "",
    only: Collection[str] | None = None,
    timeout: float = 60.0,
    api_key: str | None = None,
    environment: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> "McpTools":
    """The tools of an MCP server, for `Agent(tools=[mcp_tools(...)])`.

    `server` is a URL (`mcp+https://HOST/PATH`), a command (`mcp:COMMAND ARGUMENTS`), or the words of a command. It is
    connected when the agent runs for the first time, and again after it has ended; `Agent.close` ends it. `prefix` is
    put before the names of its tools, `only` names the tools to use, `timeout` is in seconds and for each call. The key
    for a URL is `api_key` or that of the host in `OPENSKILL_MCP_KEYS`; a command also gets the variables in
    `environment`.
    """
    if timeout <= 0:
        raise InvalidArgument("timeout", "must be more than 0 seconds")
    known = settings or Settings.from_env()
    if isinstance(server, str):
        text = server if server.startswith(("mcp:", "mcp+")) else f"mcp+{server}"
        address = parse_mcp_address(text, known, api_key=api_key, environment=environment)
    else:
        address = command_address(server, known, environment=environment)
    return McpTools(address, prefix=prefix, only=only, timeout=timeout)


class McpTools:
    """A `ToolSet` of one MCP server; `mcp_tools` makes one. Safe to use from several event loops."""

    def __init__(
        self, address: McpAddress, *, prefix: str = "", only: Collection[str] | None = None, timeout: float = 60.0
    ) -> None:
        self._address = address
        self._prefix = prefix
        self._only = only
        self._timeout = timeout
        self._connection: McpConnection | None = None
        self._tools: list[ExtraTool] | None = None
        self._lock = threading.Lock()

    async def open(self) -> Sequence[ExtraTool]:
        """The tools; they are listed again after the server has ended. Raises a `SkillError` that names the server."""
        connection = await self._get_connection()
        if self._tools is None:
            listed = await asyncio.wrap_future(connection.submit(self._list, self._timeout))
            self._tools = self._build_tools(listed)
        return self._tools

    async def close(self) -> None:
        """Disconnect, and end the process of a command; safe to call twice."""
        await run_in_thread(self._close)

    async def _get_connection(self) -> McpConnection:
        known = self._connection
        return known if known is not None and known.is_open else await run_in_thread(self._connect)

    def _connect(self) -> McpConnection:
        with self._lock:
            if self._connection is None or not self._connection.is_open:
                if self._connection is not None:
                    self._connection.close()
                self._tools = None
                connection = McpConnection(self._address)
                connection.open()
                self._connection = connection
            return self._connection

    def _close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            self._tools = None
            if connection is not None:
                connection.close()

    async def _list(self, client: "Client") -> "list[McpTool]":
        found: list[McpTool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            if len(found) > MAX_TOOLS:
                raise LimitExceeded(f"{self._address.label}: has more than {MAX_TOOLS:,} tools; use `only`")
            before, cursor = cursor, page.next_cursor
            if cursor is None:
                return found
            if cursor == before:
                break
        raise LimitExceeded(f"{self._address.label}: tools/list does not end")

    def _build_tools(self, listed: "Sequence[McpTool]") -> list[ExtraTool]:
        names = [tool.name for tool in listed]
        for name in self._only or ():
            if name not in names:
                known = ", ".join(names[:20]) or "none"
                raise InvalidArgument("only", f"{self._address.label} has no tool {name!r}; it has {known}")
        tools = [self._build_tool(tool) for tool in listed if self._only is None or tool.name in self._only]
        for tool in tools:
            if sum(other.name == tool.name for other in tools) > 1:
                raise InvalidArgument("tools", f"{self._address.label}: two tools are named {tool.name!r}; use `only`")
        return tools

    def _build_tool(self, tool: "McpTool") -> ExtraTool:
        # Models accept nothing else in a name.
        name = _INVALID.sub("_", f"{self._prefix}{tool.name}")[:64]
        schema = {"type": "object", **tool.input_schema}
        about = tool.description or tool.title or ""
        if len(about) + len(json.dumps(schema)) > MAX_DEFINITION_CHARACTERS:
            limit = f"{MAX_DEFINITION_CHARACTERS:,} characters"
            raise LimitExceeded(f"{self._address.label}: the definition of the tool {name!r} has more than {limit}")

        async def run(arguments: Mapping[str, Any]) -> ToolResult:
            connection = await self._get_connection()
            called = connection.submit(lambda client: client.call_tool(tool.name, dict(arguments)), self._timeout)
            return _build_result(await asyncio.wrap_future(called))

        # The server checks the arguments: its schema may use all of JSON Schema.
        return ExtraTool(name, about, run, schema, checks_arguments=True)


def _build_result(result: "CallToolResult") -> ToolResult:
    texts = [_format_block(block) for block in result.content]
    structured = result.structured_content
    if structured is not None and not any(_is_json_of(text, structured) for text in texts):
        texts.append(json.dumps(structured, ensure_ascii=False))
    text = "\n".join(texts)
    if len(text) > MAX_RESULT_CHARACTERS:
        text = f"{text[:MAX_RESULT_CHARACTERS]}\n[{len(text) - MAX_RESULT_CHARACTERS:,} more characters were cut]"
    content = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    data: dict[str, Any] = {"content": content}
    if structured is not None:
        data["structuredContent"] = structured
    if result.is_error:
        return ToolResult(f"error: {text}", data, error=SkillError(text or "the tool failed"))
    return ToolResult(text, data)


def _is_json_of(text: str, value: Any) -> bool:
    try:
        return json.loads(text) == value
    except (ValueError, RecursionError):
        return False


def _format_block(block: "ContentBlock") -> str:
    """Text as it is; for everything else what it is, because a result is text for the model."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type} {block.mime_type}, {len(block.data) * 3 // 4:,} bytes]"
        case "resource_link":
            return f"[resource {block.name} at {block.uri}]"
        case "resource":
            text = cast("str | None", getattr(block.resource, "text", None))
            return text if text is not None else f"[resource {block.resource.uri}]"
