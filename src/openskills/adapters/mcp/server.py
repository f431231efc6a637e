"""The MCP server: tools, resources, prompts and the skills extension, for both eras of the protocol.

`McpServer` answers requests; the transports are `serve_stdio` here and `openskills.adapters.mcp.http`.
"""

import asyncio
import base64
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import quote, unquote

import anyio
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    GetPromptRequestParams,
    NotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)

from openskills.adapters.mcp.resources import (
    DIRECTORY,
    SCHEME,
    ServedSkill,
    SkillResources,
    build_uri,
    parse_uri,
    take_page,
)
from openskills.arguments import check_arguments
from openskills.artifacts.store import SCHEME as ARTIFACT_SCHEME
from openskills.artifacts.store import Scope, parse_ref
from openskills.catalog.skill import MAX_RESOURCE_BYTES, SKILL_FILE, Skill
from openskills.catalog.snapshot import CatalogChanges, CatalogSnapshot
from openskills.catalog.watch import CatalogWatcher
from openskills.errors import InvalidArgument, LimitExceeded, SkillError, TooManyRequests
from openskills.prompt.guidance import build_guidance
from openskills.prompt.overview import OverviewFormat, overview
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import ResultTexts
from openskills.runtime.session_pool import IDLE_TIMEOUT, LocalCaller, SessionCaller, SessionPool
from openskills.session.state import LoadMode
from openskills.tools.names import EXEC, LOAD, SELECT
from openskills.tools.registry import TOOLS
from openskills.tools.tool import ENUM_LIMIT, ToolResult, describe_tool
from openskills.version import __version__

EXTENSION = "io.modelcontextprotocol/skills"
MAX_INSTRUCTIONS = 2048
"""Bytes of the server's instructions; clients cut longer ones."""
CACHE_MS = 60_000
SKILLS_PAGE, RESOURCES_PAGE = 500, 200
PROGRESS_INTERVAL = 1.0
"""Seconds between two progress notifications of a command."""
_UNCOUNTED = ("initialize", "ping", "tools/call")
_CACHED: tuple[CacheableMethod, ...] = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "server/discover",
)
_INSTRUCTIONS = "instructions"
_INTRODUCTION = "Skills are folders of instructions and scripts for certain tasks."

Context = ServerRequestContext[Any, Any]
ToolProgress = Callable[[str], None]
"""Is called with a line that describes what a running skill does."""


class HostedTools(Protocol):
    """Skills of a host as tools. `openskills.host.mcp` implements it."""

    def list_tools(self, caller: SessionCaller) -> Sequence[Mapping[str, Any]]:
        """The tools that a caller may call, as MCP tools."""
        ...

    async def call(
        self, name: str, arguments: Mapping[str, Any], caller: SessionCaller, on_progress: ToolProgress
    ) -> tuple[Mapping[str, Any], str | None]:
        """Call a tool; returns its data, and the message of the error if it failed.

        Raises `LookupError` for an unknown tool.
        """
        ...


class UriParams(PaginatedRequestParams):
    """Parameters of `skills/get` and `resources/directory/read`."""

    uri: str


@dataclass(slots=True)
class McpRequest:
    """What a transport knows about a request: who sends it, the connection, and the tasks that work on it.

    `is_temporary` means that the session ends with the connection and cannot be opened again.
    """

    caller: SessionCaller
    connection: str
    is_temporary: bool = False
    tasks: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])

    @property
    def session(self) -> str:
        """The name of the session: that of the caller, else that of the connection."""
        return self.caller.session or self.connection


REQUEST_KEY = "openskills.mcp"
"""The key of the ASGI scope that has the `McpRequest`."""


class _SkillsServer(Server[Any]):
    """A server that announces changes of its lists in both eras."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changed = notification_options or NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(changed, experimental_capabilities, extensions)


@check_arguments
class McpServer:
    """Answers the requests of MCP clients about the skills of a runtime. Open it with `async with`.

    `session_tools` offers the tools of sessions (`skill_load`, `skill_run`, …), `hosted` the skills of a host as tools.
    Requests that no `McpRequest` describes are those of the user of this machine.
    """

    def __init__(
        self,
        runtime: SkillRuntime,
        *,
        options: SessionOptions | None = None,
        session_tools: bool = True,
        hosted: HostedTools | None = None,
        app: str = "openskills",
        cache_scope: Literal["public", "private"] = "public",
        idle_timeout: float = IDLE_TIMEOUT,
        local: McpRequest | None = None,
        watch: bool = True,
    ) -> None:
        self._runtime = runtime
        self._options = options or SessionOptions(load_mode=LoadMode.SESSION, search=True)
        self._session_tools = session_tools
        self._hosted = hosted
        self._app = app
        self._cache = {"ttlMs": CACHE_MS, "cacheScope": cache_scope}
        self._local = local or McpRequest(LocalCaller(), "mcp")
        self._watch = watch
        self._listeners: set[ServerSession] = set()
        self._bus = InMemorySubscriptionBus()
        self._described: tuple[CatalogSnapshot, list[dict[str, Any]]] | None = None
        self._announced: tuple[CatalogSnapshot, Mapping[str, ServedSkill]] | None = None
        self.resources = SkillResources(runtime.catalog, watched=watch)
        self.sessions = SessionPool(runtime, self._options, app=app, agent="mcp", idle_timeout=idle_timeout)
        self.protocol = self._create_protocol(cache_scope)

    def _create_protocol(self, cache_scope: Literal["public", "private"]) -> Server[Any]:
        hint = CacheHint(CACHE_MS, cache_scope)
        server = _SkillsServer(
            "openskills",
            version=__version__,
            title="OpenSkill",
            cache_hints=dict.fromkeys(_CACHED, hint),
            # No argument of our tools is mirrored in HTTP headers; without this, every call would list all tools.
            get_tool_input_schema=lambda _: None,
            on_list_tools=_translate(self._list_tools),
            on_call_tool=_translate(self._call_tool),
            on_list_resources=_translate(self._list_resources),
            on_list_resource_templates=_translate(self._list_templates),
            on_read_resource=_translate(self._read_resource),
            on_list_prompts=_translate(self._list_prompts),
            on_get_prompt=_translate(self._get_prompt),
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        server.middleware = [self._add_instructions]
        server.extensions[EXTENSION] = {"directoryRead": True}
        server.add_request_handler("skills/list", PaginatedRequestParams, _translate(self._list_skills))
        server.add_request_handler("skills/get", UriParams, _translate(self._get_skill))
        server.add_request_handler("resources/directory/read", UriParams, _translate(self._read_directory))
        server.add_notification_handler("notifications/initialized", NotificationParams, self._follow_connection)
        return server

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Watch the catalog while the block runs; at its end close all sessions."""
        loop = asyncio.get_running_loop()
        watcher = await asyncio.to_thread(self._start_watcher, loop) if self._watch else None
        # The digests are computed while the first client connects.
        warming = asyncio.create_task(self._publish_changes())
        try:
            yield
        finally:
            if watcher is not None:
                await asyncio.to_thread(watcher.close)
            await asyncio.wait([warming])
            await self.sessions.close()

    def _start_watcher(self, loop: asyncio.AbstractEventLoop) -> CatalogWatcher:
        catalog = self._runtime.catalog

        def refresh() -> CatalogChanges:
            changes = catalog.refresh()
            # Always: files of skills may change although no SKILL.md does.
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(lambda: loop.create_task(self._publish_changes()))
            return changes

        return CatalogWatcher(lambda: catalog.roots, refresh)

    async def _publish_changes(self) -> None:
        self.resources.invalidate()
        served = await asyncio.to_thread(self.resources.get_all)
        before, self._announced = self._announced, (self._runtime.catalog.snapshot, served)
        if before is not None and (before[0] is not self._announced[0] or before[1] is not served):
            await self.publish_list_changed()

    async def refresh(self) -> None:
        """Look for changed skills now, instead of when the watcher reports them."""
        await asyncio.to_thread(self._runtime.catalog.refresh)
        self.resources.invalidate()

    async def publish_list_changed(self) -> None:
        """Tell all clients to list tools, prompts and resources again."""
        for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
            await self._bus.publish(event)
        for session in list(self._listeners):
            await session.send_tool_list_changed()
            await session.send_prompt_list_changed()
            await session.send_resource_list_changed()

    async def _follow_connection(self, context: Context, _: NotificationParams) -> None:
        """Runs as long as a connection of the handshake era; at its end its session is closed."""
        request = self._get_request(context)
        self._listeners.add(context.session)
        try:
            await anyio.sleep_forever()
        finally:
            self._listeners.discard(context.session)
            with anyio.CancelScope(shield=True):
                if not request.caller.session:
                    await self.sessions.close_session(request.caller.user, request.session)

    def _get_request(self, context: Context) -> McpRequest:
        return self._local if context.request is None else context.request.scope[REQUEST_KEY]

    async def _add_instructions(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: the instructions depend on the caller, and all requests count against its rate limit.

        Calls of tools are counted where they are admitted, and `initialize` before the connection is opened.
        """
        if ctx.method not in _UNCOUNTED and not ctx.method.startswith("notifications/"):
            try:
                self._get_request(ctx).caller.count_request()
            except TooManyRequests as error:
                raise _to_mcp_error(error) from None
        result = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            result[_INSTRUCTIONS] = self.build_instructions(self._get_request(ctx).caller)
            # The SDK drops extensions from results of the handshake era, whose clients use them all the same.
            result["capabilities"]["extensions"] = dict(self.protocol.extensions)
        return result

    def build_instructions(self, caller: SessionCaller) -> str:
        """The skills that a caller may use and how, in at most `MAX_INSTRUCTIONS` bytes."""
        skills = [skill for skill in self._runtime.catalog.snapshot.skills if caller.can_use(skill.name)]
        guidance = build_guidance(self._list_names(caller)) if skills and self._session_tools else ""
        for budget in range(480, 20, -20):
            listed = overview(skills, OverviewFormat.BULLETS, budget).text
            text = "\n\n".join(filter(None, (_INTRODUCTION, listed, guidance)))
            if len(text.encode()) <= MAX_INSTRUCTIONS:
                return text
        return "\n\n".join(filter(None, (_INTRODUCTION, guidance)))

    def _list_names(self, caller: SessionCaller) -> Sequence[str]:
        """The names of the session tools of a caller; none without a skill that it may use."""
        skills = self._runtime.catalog.snapshot.skills
        if not self._session_tools or not any(caller.can_use(skill.name) for skill in skills):
            return ()
        return self._runtime.tool_names(self._options)

    def _describe_session_tools(self, caller: SessionCaller) -> list[dict[str, Any]]:
        snapshot = self._runtime.catalog.snapshot
        if not caller.is_restricted and self._described is not None and self._described[0] is snapshot:
            return self._described[1]
        names = [skill.name for skill in snapshot.skills if caller.can_use(skill.name)]
        found = [_describe_tool(name, names if len(names) <= ENUM_LIMIT else ()) for name in self._list_names(caller)]
        if not caller.is_restricted:
            self._described = (snapshot, found)
        return found

    async def _list_tools(self, context: Context, _: PaginatedRequestParams | None) -> dict[str, Any]:
        caller = self._get_request(context).caller
        tools = self._describe_session_tools(caller)
        if self._hosted is not None:
            taken = {tool["name"] for tool in tools}
            tools = [*tools, *(dict(tool) for tool in self._hosted.list_tools(caller) if tool["name"] not in taken)]
        return {"tools": tools}

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> dict[str, Any]:
        request = self._get_request(context)
        work = self._call(context, request, params.name, params.arguments or {})
        try:
            return await run_apart(work, request.tasks)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # The session was closed, or the client is gone.
            raise MCPError(INTERNAL_ERROR, "the call was cancelled") from None

    async def _call(
        self, context: Context, request: McpRequest, name: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        async with _report_progress(context) as report:
            if name in self._list_names(request.caller):
                return await self._call_session(request, name, arguments)
            if self._hosted is not None:
                with suppress(LookupError):
                    data, error = await self._hosted.call(name, arguments, request.caller, report)
                    text = json.dumps(data, ensure_ascii=False) if error is None else f"error: {error}"
                    return _build_result(text, data, is_error=error is not None)
        raise MCPError(INVALID_PARAMS, f"unknown tool {name[:100]!r}; tools/list has all tools", {"name": name[:100]})

    async def _call_session(self, request: McpRequest, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        loaded = ""
        try:
            if name == EXEC:
                self.sessions.check_command_limit(request.caller)
            used = self.sessions.use(request.caller, request.session, is_temporary=request.is_temporary)
            async with request.caller.admit(), used as session:
                result = await session.call(name, arguments)
                loaded = await ResultTexts(session).load(result)
        except SkillError as error:
            # It could not start; the model is told.
            result = ToolResult.from_error(error)
        text = f"{result.text}\n\n{loaded}" if loaded else result.text
        data = {**result.data, _INSTRUCTIONS: loaded} if loaded else result.data
        return _build_result(text, data, is_error=result.error is not None)

    async def _get_served(self) -> Mapping[str, ServedSkill]:
        known = self.resources.get_known()
        return await asyncio.to_thread(self.resources.get_all) if known is None else known

    async def _list_served(self, caller: SessionCaller) -> list[ServedSkill]:
        served = await self._get_served()
        return [one for one in served.values() if caller.can_use(one.skill.name)]

    async def _find_served(self, context: Context, name: str) -> ServedSkill:
        found = (await self._get_served()).get(name)
        if found is None or not self._get_request(context).caller.can_use(name):
            raise InvalidArgument("uri", f"unknown skill {name[:100]!r}; skills/list has all skills")
        return found

    async def _list_resources(self, context: Context, params: PaginatedRequestParams | None) -> dict[str, Any]:
        served = await self._list_served(self._get_request(context).caller)
        cursor = None if params is None else params.cursor
        # Only the skills of this page are rendered, however many there are.
        skill, _, rest = (cursor or "").partition("/")
        found: list[dict[str, Any]] = []
        last = ""
        for one in served:
            if one.skill.name < skill:
                continue
            for index, resource in enumerate(one.list_resources()):
                if one.skill.name == skill and rest.isdecimal() and index <= int(rest[:9]):
                    continue
                if len(found) == RESOURCES_PAGE:
                    return {"resources": found, "nextCursor": last}
                found.append(resource)
                last = f"{one.skill.name}/{index}"
        return {"resources": found}

    async def _list_templates(self, _: Context, __: PaginatedRequestParams | None) -> dict[str, Any]:
        templates = [
            {
                "uriTemplate": f"{SCHEME}{{skill}}/{{+path}}",
                "name": "skill file",
                "description": "A file of a skill; SKILL.md has its instructions.",
            }
        ]
        if self._session_tools:
            about = "A file that a command has saved; without @version, the latest."
            template = f"{ARTIFACT_SCHEME}{{+name}}@{{version}}"
            templates.append({"uriTemplate": template, "name": "artifact", "description": about})
        return {"resourceTemplates": templates}

    async def _read_resource(self, context: Context, params: ReadResourceRequestParams) -> dict[str, Any]:
        uri = str(params.uri)
        if uri.startswith(ARTIFACT_SCHEME) and self._session_tools:
            data, mime_type = await self._read_artifact(context, uri)
            return {"contents": [_build_contents(uri, data, mime_type)], "ttlMs": CACHE_MS, "cacheScope": "private"}
        name, path = parse_uri(uri)
        served = await self._find_served(context, name)
        if not path:
            raise InvalidArgument("uri", f"{uri[:200]} is a directory; read {build_uri(name, SKILL_FILE)}")
        file, data = await asyncio.to_thread(self.resources.read, served, path)
        return {"contents": [_build_contents(uri, data, file.mime_type)]}

    async def _read_artifact(self, context: Context, uri: str) -> tuple[bytes, str]:
        request = self._get_request(context)
        name, version = parse_ref(unquote(uri), field="uri")
        scope = Scope(self._app, request.caller.user, request.session)
        async with self._runtime.artifacts.open(scope, name, version) as reading:
            size = reading.artifact.size
            if size > MAX_RESOURCE_BYTES:
                said = f"{reading.artifact.ref} has {size:,} bytes; the limit is {MAX_RESOURCE_BYTES:,}"
                raise LimitExceeded(said, limit=MAX_RESOURCE_BYTES, size=size)
            return b"".join([chunk async for chunk in reading.chunks]), reading.artifact.mime_type

    async def _list_skills(self, context: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        served = await self._list_served(self._get_request(context).caller)
        listed = [one for one in served if one.entry]
        page, cursor = take_page(listed, lambda one: one.skill.name, params.cursor, SKILLS_PAGE)
        more = {} if cursor is None else {"nextCursor": cursor}
        return {"skills": [one.entry for one in page], **more, **self._cache}

    async def _get_skill(self, context: Context, params: UriParams) -> dict[str, Any]:
        name, path = parse_uri(params.uri)
        served = await self._find_served(context, name)
        if path != SKILL_FILE or not served.entry:
            raise InvalidArgument("uri", f"{params.uri[:200]} is not the address of a skill; skills/list has all")
        return {"skill": served.entry, **self._cache}

    async def _read_directory(self, context: Context, params: UriParams) -> dict[str, Any]:
        if params.uri == SCHEME:
            served = await self._list_served(self._get_request(context).caller)
            children = [
                {"uri": build_uri(one.skill.name), "name": one.skill.name, "mimeType": DIRECTORY} for one in served
            ]
        else:
            name, path = parse_uri(params.uri)
            found = await self._find_served(context, name)
            children = await asyncio.to_thread(found.list_directory, path)
        page, cursor = take_page(children, lambda one: str(one["name"]), params.cursor, RESOURCES_PAGE)
        more = {} if cursor is None else {"nextCursor": cursor}
        return {"resources": list(page), **more, **self._cache}

    def _list_prompt_skills(self, caller: SessionCaller) -> list[Skill]:
        """The skills that users may choose, also those that models do not see because their author says so."""
        snapshot = self._runtime.catalog.snapshot
        for_users = (one.skill for one in snapshot.hidden.values() if one.skill.manifest.disable_model_invocation)
        found = [
            skill
            for skill in (*snapshot.skills, *for_users)
            if skill.manifest.user_invocable and caller.can_use(skill.name)
        ]
        return sorted(found, key=lambda skill: skill.name)

    async def _list_prompts(self, context: Context, params: PaginatedRequestParams | None) -> dict[str, Any]:
        skills = self._list_prompt_skills(self._get_request(context).caller)
        cursor = None if params is None else params.cursor
        page, following = take_page(skills, lambda skill: skill.name, cursor, RESOURCES_PAGE)
        prompts = [
            {
                "name": skill.name,
                "description": skill.description,
                "arguments": [{"name": "task", "description": skill.manifest.argument_hint or "What to do"}],
            }
            for skill in page
        ]
        return {"prompts": prompts} if following is None else {"prompts": prompts, "nextCursor": following}

    async def _get_prompt(self, context: Context, params: GetPromptRequestParams) -> dict[str, Any]:
        request = self._get_request(context)
        skill = next((one for one in self._list_prompt_skills(request.caller) if one.name == params.name), None)
        if skill is None:
            raise InvalidArgument("name", f"unknown prompt {params.name[:100]!r}; prompts/list has all prompts")
        text = await self._load_text(request, skill)
        task = (params.arguments or {}).get("task", "").strip()
        content = {"type": "text", "text": f"{text}\n\n{task}" if task else text}
        return {"description": skill.description, "messages": [{"role": "user", "content": content}]}

    async def _load_text(self, request: McpRequest, skill: Skill) -> str:
        """The instructions of a skill, which counts as loaded from then on if the model may see it."""
        if LOAD in self._list_names(request.caller) and self._runtime.catalog.snapshot.has(skill.name):
            return await run_apart(self._load(request, skill.name), request.tasks)
        return f"Follow these instructions of the skill {skill.name}:\n\n{await asyncio.to_thread(skill.body)}"

    async def _load(self, request: McpRequest, name: str) -> str:
        async with request.caller.admit(), self.sessions.use(request.caller, request.session) as session:
            result = (await session.call(LOAD, {"skill": name})).raise_for_error()
            return await ResultTexts(session).load(result)


@asynccontextmanager
async def _report_progress(context: Context) -> AsyncGenerator[ToolProgress]:
    """Report progress of one request while the block runs, if its client asks for it.

    The function shows a line with the next notification.
    """
    loop = asyncio.get_running_loop()
    began, shown = loop.time(), deque([""], maxlen=1)

    async def notify() -> None:
        while True:
            await asyncio.sleep(PROGRESS_INTERVAL)
            seconds = loop.time() - began
            line = shown[0] or f"running for {seconds:.0f} s"
            await context.session.report_progress(round(seconds, 1), message=line)

    if not context.meta or context.meta.get("progress_token") is None:
        yield shown.append
        return
    task = loop.create_task(notify())
    try:
        yield shown.append
    finally:
        task.cancel()
        await asyncio.wait([task])


def _translate(handler: Callable[[Context, Any], Any]) -> Any:
    """Complete results, and turn `SkillError` into JSON-RPC errors: what clients can correct is `INVALID_PARAMS`."""

    async def handle(context: Context, params: Any) -> Any:
        try:
            return {"resultType": "complete", **await handler(context, params)}
        except SkillError as error:
            raise _to_mcp_error(error, getattr(params, "uri", None)) from None

    return handle


def _to_mcp_error(error: SkillError, uri: object = None) -> MCPError:
    more = {} if uri is None else {"uri": str(uri)[:1000]}
    code = INVALID_PARAMS if 400 <= error.code < 500 and not isinstance(error, TooManyRequests) else INTERNAL_ERROR
    return MCPError(code, error.message, {**error.details, "reason": error.reason, **more})


def _describe_tool(name: str, skills: Sequence[str]) -> dict[str, Any]:
    tool = TOOLS[name]
    described = describe_tool(tool, "mcp", skills=skills)
    if name in (LOAD, SELECT):
        # Some clients show the model only structured content, so that has the loaded text, too.
        schema = described["outputSchema"]
        properties = {**schema["properties"], _INSTRUCTIONS: {"type": "string"}}
        described["outputSchema"] = {**schema, "properties": properties}
    described["annotations"] = {"readOnlyHint": tool.read_only, "openWorldHint": False}
    return described


def _build_result(text: str, data: Mapping[str, Any], *, is_error: bool) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}, *_build_links(data)]
    return {"content": content, "structuredContent": dict(data), "isError": is_error}


def _build_links(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    ended: Mapping[str, Any] = data.get("result") or {}
    files: list[Mapping[str, Any]] = [*data.get("artifact_files", ()), *ended.get("artifact_files", ())]
    return [
        {"type": "resource_link", "uri": quote(str(file["ref"]), safe=":/@"), "name": str(file["name"])}
        for file in files
    ]


def _build_contents(uri: str, data: bytes, mime_type: str) -> dict[str, Any]:
    try:
        return {"uri": uri, "mimeType": mime_type, "text": data.decode()}
    except UnicodeDecodeError:
        return {"uri": uri, "mimeType": mime_type, "blob": base64.b64encode(data).decode("ascii")}


@check_arguments
async def serve_stdio(server: McpServer) -> None:
    """Serve one client over stdin and stdout until it closes its end."""
    async with server.run(), stdio_server() as (incoming, outgoing):
        await server.protocol.run(incoming, outgoing, server.protocol.create_initialization_options())


T = TypeVar("T")


async def run_apart(work: Coroutine[Any, Any, T], tasks: set[asyncio.Task[Any]] | None = None) -> T:
    """Await work in a task of its own, which is cancelled once and whose cleanup is awaited. `tasks` has it meanwhile.

    The scopes of anyio cancel again and again, which would interrupt the cleanup of processes.
    """
    task = asyncio.get_running_loop().create_task(work)
    if tasks is not None:
        tasks.add(task)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        raise
    finally:
        if tasks is not None:
            tasks.discard(task)
    return task.result()
