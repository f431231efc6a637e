"""`SkillRuntimeMiddleware`: all tools of OpenSkill, with sandbox and artifacts, in any LangChain agent.

A thread of the graph is a session of the runtime. `ask_by_interrupt` asks for approval of commands with interrupts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
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
from openskills.arguments import check_arguments
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
_UNANSWERED = "this question is not answered yet"
_pending_interrupts: ContextVar[list[GraphInterrupt] | None] = ContextVar("openskills_waiting", default=None)


async def ask_by_interrupt(question: ApprovalQuestion) -> ApprovalDecision | bool | str:
    """For `SessionOptions(ask=ask_by_interrupt)`: interrupt the graph for each command that is not pre-approved.

    The interrupt describes the command. Resume with `Command(resume=...)`: True, False, an `ApprovalDecision`, or the
    reason for a denial. Needs a checkpointer, and works only for tools of `SkillRuntimeMiddleware`.
    """
    waiting = _pending_interrupts.get()
    if waiting is None:
        raise InvalidArgument("ask", "ask_by_interrupt needs SkillRuntimeMiddleware")
    try:
        answer: object = interrupt(_question_to_json(question))
        return answer if isinstance(answer, bool | str) else False
    except GraphInterrupt as paused:
        # `SkillSession.call` would turn the exception into a result; `await_answer` raises it later.
        waiting.append(paused)
        return _UNANSWERED


async def await_answer(call: Awaitable[ToolResult], arguments: Mapping[str, Any]) -> ToolResult:
    """The result of a call; raises `GraphInterrupt` when the call asked a question that is not answered yet."""
    waiting: list[GraphInterrupt] = []
    token = _pending_interrupts.set(waiting)
    try:
        result = await call
    finally:
        _pending_interrupts.reset(token)
    if waiting:
        raise waiting[0]
    if result.error is not None and _UNANSWERED in result.error.message:
        # Another call of the same message asked the same question and took the answer.
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
        # Plain text, because reading an enum from a checkpoint needs its class.
        "choices": [decision.value for decision in ApprovalDecision],
    }


_FILES = "artifact_files"
_CHANGE_TOOLS = (LOAD, SELECT, UNLOAD)


def find_call_index(call_id: str, messages: Sequence[Any]) -> int:
    """The index of a call in the last message of the model; 0 if it is not there."""
    ids = [call["id"] for call in _find_last_calls(messages)]
    return ids.index(call_id) if call_id in ids else 0


def find_earlier_changes(call_id: str, messages: Sequence[Any]) -> list[tuple[int, ToolCall]]:
    """Earlier calls in the same message that may change what is loaded, with their indexes.

    Calls that have a result already are left out: their changes are in the state, or they were rejected.
    """
    done = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    earlier = list(enumerate(_find_last_calls(messages)))[: find_call_index(call_id, messages)]
    return [(place, call) for place, call in earlier if call["name"] in _CHANGE_TOOLS and call["id"] not in done]


def build_tool_message(name: str, call_id: str, result: ToolResult) -> ToolMessage:
    """The result as a message; its `artifact` has the saved files."""
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
"""Returns the tools of a session by name, described for its skills."""


@dataclass(frozen=True, slots=True)
class RuntimeModelCall:
    """A request, and the state changes to apply after the model has answered."""

    request: ModelRequest[Any]
    changes: tuple[RecordedChange, ...]

    def build_response(self, answer: ModelResponse[Any]) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """The answer with the state changes."""
        if not self.changes:
            return answer
        return ExtendedModelResponse(answer, Command(update={SKILLS: changes_to_channel(self.changes)}))


def prepare_call(
    request: ModelRequest[Any], session: SkillSession, branch: Branch, tools_of: ToolsLookup
) -> RuntimeModelCall:
    """Add the skills, the loaded texts and the current tools to a request. Blocks."""
    sent = session.context(to_mappings(request.system_message, request.messages))
    system, messages = to_messages(sent, request.system_message, request.messages)
    tools = tools_of(session)
    offered = [
        found
        for tool in request.tools
        if (found := tools.get(tool.name) if isinstance(tool, SkillTool) else tool) is not None
    ]
    shown = request.override(system_message=system, messages=messages, tools=offered)
    return RuntimeModelCall(shown, (*branch.changes, *_find_consumed(session, branch)))


def _find_consumed(session: SkillSession, branch: Branch) -> list[RecordedChange]:
    """In the load mode `once`, skills are unloaded after the model has answered this request."""
    if session.options.load_mode is not LoadMode.ONCE:
        return []
    view = branch.state.view_for(session.agent)
    return [RecordedChange(view.entries[skill].loaded, session.agent, Consumed(skill)) for skill in view.list_loaded()]


UserLookup: TypeAlias = str | Callable[[RunnableConfig], str]
"""The user of all threads, or a function that returns the user from the configuration of a run."""


def find_scope(config: RunnableConfig, state: Mapping[str, Any], app: str, user: UserLookup) -> Scope:
    """The session of a run: its thread, or the generated name of a run without a thread.

    Raises `InvalidArgument` for invalid names of sessions or users.
    """
    session = get_thread_id(config) or str(state.get(SESSION) or "")
    return Scope(app, user(config) if callable(user) else user, session)


def get_thread_id(config: RunnableConfig) -> str:
    """The thread id of a run, or an empty string."""
    found = config.get("configurable", {}).get("thread_id")
    return "" if found is None else str(found)


def create_session_name(config: RunnableConfig, state: Mapping[str, Any]) -> dict[str, str] | None:
    """A state update with a session name for a run without a thread; None if it has one."""
    if get_thread_id(config) or state.get(SESSION):
        return None
    return {SESSION: f"run-{uuid4().hex}"}


def get_user_id(config: RunnableConfig) -> str:
    """`user_id` of the configuration, or `local`."""
    return str(config.get("configurable", {}).get("user_id") or "local")


@check_arguments
class SkillRuntimeMiddleware(AgentMiddleware[Any, Any, Any]):
    """For `create_agent(model, middleware=[SkillRuntimeMiddleware(runtime)])`.

    A thread of the graph is a session of the runtime, with its workspace and artifacts. Loaded skills are in the state
    of the thread, so going back to a checkpoint restores them, but not files. `user` owns the artifacts that outlive a
    thread: a name, or a function of a run's configuration, by default its `user_id`. Close the runtime yourself.
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
            # Skills that are added later may need it, and a graph cannot get new tools.
            names = (*names, *({SEARCH} - set(names)))
        self.tools = [
            build_graph_tool(describe_tool(TOOLS[name], SchemaFormat.MCP), self._call_tool, self._find_call_home)
            for name in names
        ]
        self._offered: tuple[CatalogSnapshot, dict[str, BaseTool]] | None = None

    def before_agent(self, state: Any, runtime: Runtime[Any]) -> Any:  # noqa: ARG002
        """Give a run without a thread a session name."""
        return create_session_name(get_config(), state)

    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> Any:  # noqa: ARG002
        """See `before_agent`."""
        return create_session_name(get_config(), state)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Any:
        """Add the skills and the loaded texts to the request."""
        call = run(self._prepare(request, self._find_scope(get_config(), request.state)))
        return call.build_response(handler(call.request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        """See `wrap_model_call`."""
        scope = self._find_scope(get_config(), request.state)
        call = await self._find_home(scope).run(self._prepare(request, scope))
        return call.build_response(await handler(call.request))

    async def _prepare(self, request: ModelRequest[Any], scope: Scope) -> RuntimeModelCall:
        branch = Branch(state_from_channel(cast("Mapping[str, Any]", request.state).get(SKILLS)))
        async with self._open_session(scope, branch) as session:
            if not session.loaded_skills():
                return prepare_call(request, session, branch, self._get_tools)
            # In a thread, because it may read files of loaded skills.
            return await asyncio.to_thread(prepare_call, request, session, branch, self._get_tools)

    async def _call_tool(self, name: str, arguments: Mapping[str, Any], runtime: CallRuntime) -> Any:
        """Call a tool; returns its result and the state update."""
        state = cast("Mapping[str, Any]", runtime.state)
        call_id, messages = runtime.tool_call_id or "", state.get("messages", ())
        known = state_from_channel(state.get(SKILLS))
        # Calls of one message run in parallel; their order in it decides which is later.
        branch = Branch(replace(known, clock=known.clock + find_call_index(call_id, messages)))
        async with self._open_session(self._find_scope(runtime.config, state), branch) as session:
            # Simulate earlier calls, whose changes are in their own updates.
            for place, earlier in find_earlier_changes(call_id, messages):
                await session.simulate_call(earlier["name"], earlier["args"], at=known.clock + place + 1)
            branch.changes.clear()
            result = await await_answer(session.call(name, arguments, call_id=call_id), arguments)
        message: ToolMessage = build_tool_message(name, call_id, result)
        changes = changes_to_channel(branch.changes)
        return Command(update={"messages": [message], SKILLS: changes}) if changes else message

    def _find_call_home(self, runtime: CallRuntime) -> HomeLoop:
        return self._find_home(self._find_scope(runtime.config, runtime.state))

    def _find_home(self, scope: Scope) -> HomeLoop:
        """The loop to run in: that of a running command of the thread, otherwise the current one."""
        # Only for async calls: a blocking call could wait for its own loop.
        loop = self._runtime.find_loop(scope)
        return HomeLoop(loop or asyncio.get_running_loop())

    def _find_scope(self, config: RunnableConfig, state: object) -> Scope:
        return find_scope(config, cast("Mapping[str, Any]", state), self._app, self._user)

    def _open_session(self, scope: Scope, branch: Branch) -> AbstractAsyncContextManager[SkillSession]:
        return self._runtime.session(
            scope.session, agent=self._agent, user=scope.user, app=scope.app, options=self._options, branch=branch
        )

    def _get_tools(self, session: SkillSession) -> dict[str, BaseTool]:
        """The tools as described for the current skills, cached by catalog snapshot."""
        snapshot = self._runtime.catalog.snapshot
        if self._offered is None or self._offered[0] is not snapshot:
            made = {
                str(one["name"]): build_graph_tool(one, self._call_tool, self._find_call_home)
                for one in session.tools(SchemaFormat.MCP)
            }
            self._offered = (snapshot, made)
        return self._offered[1]
