"""SkillRuntimeMiddleware.

People who decide about commands while the graph waits for them.

A call of a tool in a graph: its place among those of the same message, and its result as a message. Pure.

A call of the model: the request with everything that the model is to see, and what that changes in the thread.

Whose session a run of a graph is.

Skills with all tools of ours, the sandbox and the artifacts, in any agent of LangChain.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast
from uuid import uuid4

from langchain.agents.middleware.types import AgentMiddleware, ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from openskills.adapters.langchain.runtime_state import (
    SESSION,
    SKILLS,
    SkillRuntimeState,
    changes_to_channel,
    state_from_channel,
)
from openskills.adapters.langchain.runtime_tools import Runtime as CallRuntime
from openskills.adapters.langchain.runtime_tools import SkillTool, build_graph_tool, to_mappings, to_messages
from openskills.artifacts.store import Scope
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.concurrency import HomeLoop
from openskills.errors import InvalidArgument
from openskills.runtime.branch import Branch
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.session.state import Consumed, LoadMode, RecordedChange
from openskills.sync import run
from openskills.tools.approvals import ApprovalDecision, ApprovalQuestion
from openskills.tools.names import LOAD, SEARCH, SELECT, UNLOAD
from openskills.tools.registry import TOOLS
from openskills.tools.tool import SchemaFormat, ToolResult, describe_tool

_KIND = "skill_command"
_UNANSWERED = "nobody has answered yet"
_pending_interrupts: ContextVar[list[GraphInterrupt] | None] = ContextVar("openskills_waiting", default=None)


async def ask_by_interrupt(question: ApprovalQuestion) -> ApprovalDecision | bool | str:
    """For `SessionOptions(ask=ask_by_interrupt)`: each command that no skill pre-approves interrupts the graph.

    The interrupt says what is to be run. Resume with `Command(resume=...)`: True, False, a `Decision`, or the reason
    for a no. Needs a checkpointer. Only for tools of `SkillRuntimeMiddleware`.
    """
    waiting = _pending_interrupts.get()
    if waiting is None:
        raise InvalidArgument("ask", "ask_by_interrupt is for agents with SkillRuntimeMiddleware")
    try:
        return _parse_decision(interrupt(_question_to_json(question)))
    except GraphInterrupt as paused:
        # Carried around the door of the session, which would make a result of it.
        waiting.append(paused)
        return _UNANSWERED


async def await_answer(call: Awaitable[ToolResult], arguments: Mapping[str, Any]) -> ToolResult:
    """The result of a call; interrupts the graph when the call came to a question that nobody has answered."""
    waiting: list[GraphInterrupt] = []
    token = _pending_interrupts.set(waiting)
    try:
        result = await call
    finally:
        _pending_interrupts.reset(token)
    if waiting:
        raise waiting[0]
    if result.error is not None and _UNANSWERED in result.error.message:
        # Another call of the same message asked the same, and both had the answer that was meant for that one.
        interrupt({"type": _KIND, "skill": arguments.get("skill"), "command": arguments.get("command")})
    return result


def _question_to_json(question: ApprovalQuestion) -> dict[str, Any]:
    return {
        "type": _KIND,
        "skill": question.skill,
        "command": question.command,
        "cwd": question.cwd,
        "env": list(question.env),
        "network": list(question.network),
        "interactive": question.interactive,
        "installs": question.installs,
        # Plain text: an enumeration in a checkpoint could not be read without its class.
        "choices": [decision.value for decision in ApprovalDecision],
    }


def _parse_decision(answer: object) -> bool | str:
    return answer if isinstance(answer, bool | str) else False


_FILES = "artifact_files"
_CHANGE_TOOLS = (LOAD, SELECT, UNLOAD)


def find_call_index(call_id: str, messages: Sequence[Any]) -> int:
    """Which call of the last answer of the model it is, from 0; also 0 if it is none of them."""
    ids = [call["id"] for call in _find_last_calls(messages)]
    return ids.index(call_id) if call_id in ids else 0


def find_earlier_changes(call_id: str, messages: Sequence[Any]) -> list[tuple[int, ToolCall]]:
    """The calls before this one in the same answer that may change what is loaded, with their places.

    One that has a result already is none of them: the state has what it changed, or somebody has refused it.
    """
    done = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    earlier = list(enumerate(_find_last_calls(messages)))[: find_call_index(call_id, messages)]
    return [(place, call) for place, call in earlier if call["name"] in _CHANGE_TOOLS and call["id"] not in done]


def build_tool_message(name: str, call_id: str, result: ToolResult) -> ToolMessage:
    """What the model reads. For programs, `artifact` has the files that were kept."""
    files = result.data.get(_FILES)
    return ToolMessage(
        result.text,
        name=name,
        tool_call_id=call_id,
        status="success" if result.error is None else "error",
        artifact={_FILES: files} if files else None,
    )


def _find_last_calls(messages: Sequence[Any]) -> Sequence[ToolCall]:
    return next((message.tool_calls for message in reversed(messages) if isinstance(message, AIMessage)), ())


ToolsLookup: TypeAlias = Callable[[SkillSession], Mapping[str, BaseTool]]
"""The tools of a session, by name, with the descriptions that fit to its skills."""


@dataclass(frozen=True, slots=True)
class RuntimeModelCall:
    """A request that can be sent, and the changes that count once it was answered."""

    request: ModelRequest[Any]
    changes: tuple[RecordedChange, ...]

    def build_response(self, answer: ModelResponse[Any]) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """The answer, with the changes for the state of the thread. A call that failed changes nothing."""
        if not self.changes:
            return answer
        return ExtendedModelResponse(answer, Command(update={SKILLS: changes_to_channel(self.changes)}))


def prepare_call(
    request: ModelRequest[Any], session: SkillSession, branch: Branch, tools_of: ToolsLookup
) -> RuntimeModelCall:
    """Show the skills, the loaded texts, and the tools as they are now, as far as nobody took them out. Blocks."""
    sent = session.context(to_mappings(request.system_message, request.messages))
    system, messages = to_messages(sent, request.system_message, request.messages)
    tools = tools_of(session)
    offered = [found for tool in request.tools if (found := _select_tool(tool, tools)) is not None]
    shown = request.override(system_message=system, messages=messages, tools=offered)
    return RuntimeModelCall(shown, (*branch.changes, *_find_consumed(session, branch)))


def _find_consumed(session: SkillSession, branch: Branch) -> list[RecordedChange]:
    """In the mode `once`, what is in this request is gone when the model has answered it."""
    if session.options.load_mode is not LoadMode.ONCE:
        return []
    view = branch.state.view_for(session.agent)
    return [RecordedChange(view.entries[skill].loaded, session.agent, Consumed(skill)) for skill in view.list_loaded()]


def _select_tool(tool: BaseTool | dict[str, Any], ours: Mapping[str, BaseTool]) -> BaseTool | dict[str, Any] | None:
    """The tool itself, the description of ours that fits to the skills there are, or None if there is none now."""
    return ours.get(tool.name) if isinstance(tool, SkillTool) else tool


UserLookup: TypeAlias = str | Callable[[RunnableConfig], str]
"""The user of every thread, or a function that finds him in the configuration of a run."""


def find_scope(config: RunnableConfig, state: Mapping[str, Any], app: str, user: UserLookup) -> Scope:
    """The session of a run: its thread, or the name that the run was given because it has none.

    Raises `InvalidArgument` for what cannot be the name of a session or of a user.
    """
    session = get_thread_id(config) or str(state.get(SESSION) or "")
    return Scope(app, user(config) if callable(user) else user, session)


def get_thread_id(config: RunnableConfig) -> str:
    """The thread of a run; empty when it belongs to none."""
    found = config.get("configurable", {}).get("thread_id")
    return "" if found is None else str(found)


def create_session_name(config: RunnableConfig, state: Mapping[str, Any]) -> dict[str, str] | None:
    """A name for a run without a thread, as an update of its state; None where nothing is needed."""
    if get_thread_id(config) or state.get(SESSION):
        return None
    return {SESSION: f"run-{uuid4().hex}"}


def get_user_id(config: RunnableConfig) -> str:
    """`user_id` of the configuration, or `local`."""
    return str(config.get("configurable", {}).get("user_id") or "local")


class SkillRuntimeMiddleware(AgentMiddleware[Any, Any, Any]):
    """For `create_agent(model, middleware=[SkillRuntimeMiddleware(runtime)])`.

    A thread of the graph is a session of the runtime: same workspace, same artifacts, whoever asks. What is loaded is
    in the state of the thread, so going back to a checkpoint goes back to what was loaded there; files stay as they
    are. `user` is the owner of the artifacts that outlive a thread: a name, or a function of a run's configuration;
    unless you say otherwise it is `user_id` of that. The runtime is yours: close it when you are done.
    """

    state_schema = SkillRuntimeState

    def __init__(
        self,
        runtime: SkillRuntime,
        *,
        agent: str = "assistant",
        user: UserLookup = get_user_id,
        app: str = "openskills",
        options: SessionOptions | None = None,
    ) -> None:
        super().__init__()
        self._runtime = runtime
        self._agent = agent
        self._user = user
        self._app = app
        self._options = options or runtime.options
        names = runtime.tool_names(self._options)
        if self._options.tools is None:
            # Skills that come later may make it necessary, and a graph takes no new tools.
            names = (*names, *({SEARCH} - set(names)))
        self.tools = [
            build_graph_tool(describe_tool(TOOLS[name], SchemaFormat.MCP), self._call_tool, self._find_call_home)
            for name in names
        ]
        self._offered: tuple[CatalogSnapshot, dict[str, BaseTool]] | None = None

    def before_agent(self, state: Any, runtime: Runtime[Any]) -> Any:  # noqa: ARG002
        """Give a run without a thread the name of a session."""
        return create_session_name(get_config(), state)

    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> Any:  # noqa: ARG002
        """See `before_agent`."""
        return create_session_name(get_config(), state)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Any:
        """Show the skills, and every loaded text in its place."""
        call = run(self._prepare(request))
        return call.build_response(handler(call.request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        """See `wrap_model_call`."""
        state = cast("Mapping[str, Any]", request.state)
        call = await self._find_home(get_config(), state).run(self._prepare(request))
        return call.build_response(await handler(call.request))

    async def _prepare(self, request: ModelRequest[Any]) -> RuntimeModelCall:
        state = cast("Mapping[str, Any]", request.state)
        branch = Branch(state_from_channel(state.get(SKILLS)))
        async with self._open_session(get_config(), state, branch) as session:
            # Something may have to be read, and a long list to be put together.
            return await asyncio.to_thread(prepare_call, request, session, branch, self._get_tools)

    async def _call_tool(self, name: str, arguments: Mapping[str, Any], runtime: CallRuntime) -> Any:
        """What a tool does: the result for the model, and what it changes in the state of the thread."""
        state = cast("Mapping[str, Any]", runtime.state)
        call_id, messages = runtime.tool_call_id or "", state.get("messages", ())
        known = state_from_channel(state.get(SKILLS))
        # Calls of one message run at the same time; their places in it decide which comes later.
        branch = Branch(replace(known, clock=known.clock + find_call_index(call_id, messages)))
        async with self._open_session(runtime.config, state, branch) as session:
            # Each does as if those before it were done, and says so; what they change is in their own updates.
            for place, earlier in find_earlier_changes(call_id, messages):
                await session.simulate_call(earlier["name"], earlier["args"], at=known.clock + place + 1)
            branch.changes.clear()
            result = await await_answer(session.call(name, arguments, call_id=call_id), arguments)
        message: ToolMessage = build_tool_message(name, call_id, result)
        changes = changes_to_channel(branch.changes)
        return Command(update={"messages": [message], SKILLS: changes}) if changes else message

    def _find_call_home(self, runtime: CallRuntime) -> HomeLoop:
        return self._find_home(runtime.config, cast("Mapping[str, Any]", runtime.state))

    def _find_home(self, config: RunnableConfig, state: Mapping[str, Any]) -> HomeLoop:
        """Where awaited work belongs: where a command of the thread is running, else where it is awaited."""
        # A turn that blocks stays where it is: the thread that waits for it may be that of the other loop.
        loop = self._runtime.find_loop(find_scope(config, state, self._app, self._user))
        return HomeLoop(loop or asyncio.get_running_loop())

    @asynccontextmanager
    async def _open_session(
        self, config: RunnableConfig, state: Mapping[str, Any], branch: Branch
    ) -> AsyncGenerator[SkillSession]:
        scope = find_scope(config, state, self._app, self._user)
        opened = self._runtime.session(
            scope.session, agent=self._agent, user=scope.user, app=scope.app, options=self._options, branch=branch
        )
        async with opened as session:
            yield session

    def _get_tools(self, session: SkillSession) -> dict[str, BaseTool]:
        """The tools as they are to be described for the skills that there are; made once for every such list."""
        snapshot = self._runtime.catalog.snapshot
        if self._offered is None or self._offered[0] is not snapshot:
            made = {
                str(one["name"]): build_graph_tool(one, self._call_tool, self._find_call_home)
                for one in session.tools(SchemaFormat.MCP)
            }
            self._offered = (snapshot, made)
        return self._offered[1]
