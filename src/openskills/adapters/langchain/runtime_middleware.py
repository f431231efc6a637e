"""Skills with all tools of ours, the sandbox and the artifacts, in any agent of LangChain."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command

from openskills.adapters.langchain.interrupting import answered
from openskills.adapters.langchain.runtime_calls import changing_before, place_of, tool_message
from openskills.adapters.langchain.runtime_home import Home
from openskills.adapters.langchain.runtime_request import PreparedCall, prepared
from openskills.adapters.langchain.runtime_state import SKILLS, SkillRuntimeState
from openskills.adapters.langchain.runtime_threads import UserOf, new_session, scope_of, user_of_config
from openskills.adapters.langchain.runtime_tools import Runtime as CallRuntime
from openskills.adapters.langchain.runtime_tools import graph_tool
from openskills.adapters.langchain.session_channel import plain_changes, state_of
from openskills.catalog.snapshot import Snapshot
from openskills.runtime.branch import Branch
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.sync import run
from openskills.tools.profiles import SEARCH
from openskills.tools.schemas import SchemaFormat, described
from openskills.tools.table import TOOLS


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
        user: UserOf = user_of_config,
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
        self.tools = [graph_tool(described(TOOLS[name], SchemaFormat.MCP), self._call, self._home_of) for name in names]
        self._offered: tuple[Snapshot, dict[str, BaseTool]] | None = None

    def before_agent(self, state: Any, runtime: Runtime[Any]) -> Any:  # noqa: ARG002
        """Give a run without a thread the name of a session."""
        return new_session(get_config(), state)

    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> Any:  # noqa: ARG002
        """See `before_agent`."""
        return new_session(get_config(), state)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Any:
        """Show the skills, and every loaded text in its place."""
        call = run(self._prepared(request))
        return call.response(handler(call.request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        """See `wrap_model_call`."""
        state = cast("Mapping[str, Any]", request.state)
        call = await self._home(get_config(), state).come_to(self._prepared(request))
        return call.response(await handler(call.request))

    async def _prepared(self, request: ModelRequest[Any]) -> PreparedCall:
        state = cast("Mapping[str, Any]", request.state)
        branch = Branch(state_of(state.get(SKILLS)))
        async with self._session(get_config(), state, branch) as session:
            # Something may have to be read, and a long list to be put together.
            return await asyncio.to_thread(prepared, request, session, branch, self._tools_now)

    async def _call(self, name: str, arguments: Mapping[str, Any], runtime: CallRuntime) -> Any:
        """What a tool does: the result for the model, and what it changes in the state of the thread."""
        state = cast("Mapping[str, Any]", runtime.state)
        call_id, messages = runtime.tool_call_id or "", state.get("messages", ())
        known = state_of(state.get(SKILLS))
        # Calls of one message run at the same time; their places in it decide which comes later.
        branch = Branch(replace(known, clock=known.clock + place_of(call_id, messages)))
        async with self._session(runtime.config, state, branch) as session:
            # Each does as if those before it were done, and says so; what they change is in their own updates.
            for place, earlier in changing_before(call_id, messages):
                await session.foresee(earlier["name"], earlier["args"], at=known.clock + place + 1)
            branch.changes.clear()
            result = await answered(session.call(name, arguments, call_id=call_id), arguments)
        message: ToolMessage = tool_message(name, call_id, result)
        changes = plain_changes(branch.changes)
        return Command(update={"messages": [message], SKILLS: changes}) if changes else message

    def _home_of(self, runtime: CallRuntime) -> Home:
        return self._home(runtime.config, cast("Mapping[str, Any]", runtime.state))

    def _home(self, config: RunnableConfig, state: Mapping[str, Any]) -> Home:
        """Where awaited work belongs: where a command of the thread is running, else where it is awaited."""
        # A turn that blocks stays where it is: the thread that waits for it may be that of the other loop.
        loop = self._runtime.loop_of(scope_of(config, state, self._app, self._user))
        return Home(loop or asyncio.get_running_loop())

    @asynccontextmanager
    async def _session(
        self, config: RunnableConfig, state: Mapping[str, Any], branch: Branch
    ) -> AsyncGenerator[SkillSession]:
        scope = scope_of(config, state, self._app, self._user)
        opened = self._runtime.session(
            scope.session, agent=self._agent, user=scope.user, app=scope.app, options=self._options, branch=branch
        )
        async with opened as session:
            yield session

    def _tools_now(self, session: SkillSession) -> dict[str, BaseTool]:
        """The tools as they are to be described for the skills that there are; made once for every such list."""
        snapshot = self._runtime.catalog.snapshot
        if self._offered is None or self._offered[0] is not snapshot:
            made = {
                str(one["name"]): graph_tool(one, self._call, self._home_of) for one in session.tools(SchemaFormat.MCP)
            }
            self._offered = (snapshot, made)
        return self._offered[1]
