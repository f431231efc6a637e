"""`SkillsMiddleware`: deepagents' skills middleware with `load_skill` and `unload_skill`."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from deepagents.backends.protocol import BackendProtocol
from deepagents.middleware.skills import SkillsMiddleware as UpstreamMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse, ToolCallRequest
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from langgraph.types import Command

from openskills.adapters.langchain.backend_io import Steps, run_async, run_blocking
from openskills.adapters.langchain.discovery import BackendDiscovery, Listing, format_skills_list
from openskills.adapters.langchain.hooks import run_session_hooks
from openskills.adapters.langchain.load import (
    EVICTION_CHARS,
    LOAD,
    Delegation,
    LoadAnswer,
    SkillCall,
    SkillLoader,
    TaskTool,
    reconcile_calls,
)
from openskills.adapters.langchain.messages import parse_mark
from openskills.adapters.langchain.model_call import RENDERED_KEY, ModelCallPreparer, RunInitializer, TrimWarning
from openskills.adapters.langchain.options import SKILLS_SYSTEM_PROMPT, SkillOptions
from openskills.adapters.langchain.skill_tools import Runtime as CallRuntime
from openskills.adapters.langchain.skill_tools import ToolCallGuard, build_skill_tools
from openskills.adapters.langchain.state import (
    ListCache,
    LoadedChange,
    ResourceMetadata,
    SkillsState,
    ThreadState,
    summarise_resources,
)
from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    Sources: TypeAlias = Sequence[str | tuple[str, str]]
    SystemPrompt: TypeAlias = str | None
else:
    # The rest is checked by upstream, with messages that its callers know.
    Sources, SystemPrompt = Sequence[Any], Any


@check_arguments
class SkillsMiddleware(UpstreamMiddleware[Any, Any]):
    """Drop-in replacement for deepagents' class of the same name, with additional arguments.

    At most `max_loaded_skills` are loaded at a time. With `listing="marked"` the prompt shows which; with "stable" it
    never changes, for prompt caches, and tool results show it instead. `rescan` searches for skills at the beginning of
    every run; otherwise a thread keeps its first list. When a summary removes loaded skills from the context, up to
    `restored_characters` of them are restored. Load results longer than `whole_over` characters are protected from
    eviction into a file; keep it at four times `tool_token_limit_before_evict` of deepagents' `FilesystemMiddleware`.
    """

    state_schema = SkillsState

    def __init__(
        self,
        *,
        backend: Any,
        sources: Sources,
        system_prompt: SystemPrompt = SKILLS_SYSTEM_PROMPT,
        tools: Any = None,
        max_loaded_skills: int = 10,
        listing: Listing = "marked",
        rescan: bool = True,
        restored_characters: int = 80_000,
        whole_over: int = EVICTION_CHARS,
        options: SkillOptions | None = None,
    ) -> None:
        super().__init__(backend=backend, sources=sources, system_prompt=system_prompt, tools=tools)
        if max_loaded_skills < 1:
            raise InvalidArgument("max_loaded_skills", f"must be at least 1, not {max_loaded_skills}")
        self._files = cast("BackendProtocol", backend)
        self._max_loaded_skills = max_loaded_skills
        self._listing: Listing = listing
        self._options = options or SkillOptions()
        self._discovery = BackendDiscovery(self.sources, self._options.has_extensions)
        self._loading = SkillLoader(
            self._discovery, max_loaded_skills, self._options.invocation, marked=listing == "marked"
        )
        self._tool_calls = ToolCallGuard(self._options, self._discovery, whole_over)
        self._beginning = RunInitializer(self._discovery, max_loaded_skills, rescan, tell_state=listing == "stable")
        self._model_calls = ModelCallPreparer(
            self._options.models, self._discovery, restored_characters, self.modify_request
        )
        self._sections = ListCache[str]()
        self._trimming = TrimWarning()
        self._has_checked_subagents = False
        self.tools = build_skill_tools(
            self.load_blocking, self.load, self.unload, with_arguments=self._options.can_take_arguments
        )

    def before_agent(self, state: Any, runtime: Runtime[Any], config: RunnableConfig) -> Any:  # noqa: ARG002
        """Find skills, unless the caller passed them, and reload changed ones."""
        return run_blocking(self._begin_run(state, config), self._files)

    async def abefore_agent(self, state: Any, runtime: Runtime[Any], config: RunnableConfig) -> Any:  # noqa: ARG002
        """See `before_agent`."""
        return await run_async(self._begin_run(state, config), self._files)

    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Reconcile the results of parallel calls, and pin skills as upstream does."""
        seen = run_blocking(self._ensure_skills(state), self._files)
        return self._reconcile(state, seen, super().before_model(seen, runtime))

    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """See `before_model`."""
        seen = await run_async(self._ensure_skills(state), self._files)
        return self._reconcile(state, seen, await super().abefore_model(seen, runtime))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Any:
        """Add the list of skills to the prompt, restore loaded ones, and disclose tools of loaded or pinned skills."""
        self._check_subagents(request)
        call = run_blocking(self._model_calls.prepare(request), self._files)

        def send(inner: ModelRequest[Any]) -> ModelResponse[Any]:
            whole = call.restore_request(inner)
            with self._trimming.watch(whole):
                return handler(whole)

        return call.build_response(super().wrap_model_call(call.upstream_request, send))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        """See `wrap_model_call`."""
        self._check_subagents(request)
        call = await run_async(self._model_calls.prepare(request), self._files)

        async def send(inner: ModelRequest[Any]) -> ModelResponse[Any]:
            whole = call.restore_request(inner)
            with self._trimming.watch(whole):
                return await handler(whole)

        return call.build_response(await super().awrap_model_call(call.upstream_request, send))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Run a tool as upstream does, with the rules and hooks of loaded skills."""
        begun = run_blocking(self._tool_calls.before_call(request), self._files)
        if begun.answer is not None:
            return begun.answer
        return run_blocking(
            self._tool_calls.after_call(begun, super().wrap_tool_call(begun.request, handler)), self._files
        )

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """See `wrap_tool_call`."""
        begun = await run_async(self._tool_calls.before_call(request), self._files)
        if begun.answer is not None:
            return begun.answer
        result = await super().awrap_tool_call(begun.request, handler)
        return await run_async(self._tool_calls.after_call(begun, result), self._files)

    def load_blocking(self, skill: str, args: str, runtime: CallRuntime) -> LoadAnswer:
        """Implements `load_skill`, blocking."""
        return run_blocking(self._load_steps(skill, args, runtime), self._files)

    async def load(self, skill: str, args: str, runtime: CallRuntime) -> LoadAnswer:
        """Implements `load_skill`."""
        return await run_async(self._load_steps(skill, args, runtime), self._files)

    def unload(self, skill: str, runtime: CallRuntime) -> LoadAnswer:
        """Implements `unload_skill`."""
        return self._loading.unload(SkillCall.from_state(skill, runtime.tool_call_id, runtime.state))

    def modify_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Append the section about skills to the system message."""
        state = cast("Mapping[str, Any]", request.state)
        if self.system_prompt_template is None or state.get(RENDERED_KEY):
            return request
        section = self._render_section(self.system_prompt_template, ThreadState(state), _list_tools(request))
        blocks: list[Any] = list(request.system_message.content_blocks) if request.system_message else []
        blocks.append({"type": "text", "text": f"\n\n{section}" if blocks else section})
        return request.override(system_message=SystemMessage(content_blocks=blocks))

    def _format_skills_list(
        self,
        skills: Sequence[Any],
        loaded: Sequence[str] = (),
        resources: Mapping[str, Sequence[ResourceMetadata]] | None = None,
        tools: Collection[str] = (),
    ) -> str:
        if not skills:
            return f"(No skills available yet. You can create skills in {' or '.join(self.sources)})"
        return format_skills_list(skills, loaded, resources or {}, hints=self._options.invocation, tools=tools)

    def _render_section(self, template: str, thread: ThreadState, tools: frozenset[str]) -> str:
        skills, errors = thread.skills or [], thread.errors
        loaded = thread.loaded if self._listing == "marked" else ()
        resources = {name: thread.resources.get(name, ()) for name in loaded}
        circumstances = (tuple(errors), tools, tuple((name, summarise_resources(resources[name])) for name in loaded))

        def make() -> str:
            listed = self._format_skills_list(skills, loaded, resources, tools)
            if skills and self._listing == "marked":
                listed += f"\n\n({len(loaded)} of {self._max_loaded_skills} loaded)"
            without_files = bool(tools) and "read_file" not in tools
            return (template.replace(" with `read_file`", "") if without_files else template).format(
                skills_locations=self._format_skills_locations(),
                skills_load_warnings=self._format_skills_load_warnings(errors),
                skills_list=listed,
            )

        return self._sections.get(skills, circumstances, make)

    def _begin_run(self, state: Any, config: RunnableConfig) -> Steps[Any]:
        """The state update at the start of a run, with what `SessionStart` hooks say at the start of a thread."""
        update = yield from self._beginning.run(state)
        configurable: Mapping[str, Any] = config.get("configurable") or {}
        thread = ThreadState({**state, **(update or {})})
        is_start = ThreadState(state).is_new and configurable.get("ls_agent_type") != "subagent"
        if self._options.hooks is None or not is_start or not thread.skills:
            return update
        notes = yield from run_session_hooks(
            thread.skills, self._options.hooks, str(configurable.get("thread_id") or "")
        )
        if not notes:
            return update
        message = HumanMessage("\n\n".join(notes), additional_kwargs={"lc_source": "openskills"})
        return {**(update or {}), "messages": [*(update or {}).get("messages", ()), message]}

    def _check_subagents(self, request: ModelRequest[Any]) -> None:
        """Warn once of subagents with upstream's middleware."""
        task = None if self._has_checked_subagents else TaskTool.find(request.tools)
        self._has_checked_subagents = True
        names = task.find_upstream_subagents() if task is not None else ()
        if names:
            logger.warning(
                "These subagents have deepagents' own SkillsMiddleware, without load_skill: %s; instead of `skills`, "
                "give them openskills' SkillsMiddleware in `middleware`",
                ", ".join(names),
            )

    def _ensure_skills(self, state: Any) -> Steps[Any]:
        """The state with the list of skills, which pinning needs; after an interrupt a long list is missing."""
        if not state.get("pinned_skills") or ThreadState(state).skills is not None:
            return state
        found, _ = yield from self._discovery.find_skills(tolerant=True)
        return {**state, "skills_metadata": found} if found else state

    def _reconcile(
        self, state: Mapping[str, Any], seen: Mapping[str, Any], pins: Mapping[str, Any] | None
    ) -> dict[str, Any] | None:
        stable = self._listing == "stable"
        update = reconcile_calls(ThreadState(state).messages, self._max_loaded_skills, tell_state=stable)
        pinned = {**(pins or {}), **({} if seen is state else {"skills_metadata": seen["skills_metadata"]})}
        messages = [*update.get("messages", ()), *pinned.get("messages", ())]
        merged = {**update, **pinned}
        names = [mark.skill for message in pinned.get("messages", ()) if (mark := parse_mark(message))]
        # Before a run has begun there is nothing to add them to.
        if names and not ThreadState(state).is_new:
            merged["skills_loaded"] = LoadedChange(load=names, limit=self._max_loaded_skills)
        return ({**merged, "messages": messages} if messages else merged) or None

    def _load_steps(self, skill: str, args: str, runtime: CallRuntime) -> Steps[LoadAnswer]:
        task = TaskTool.find(runtime.tools) if self._options.fork else None
        loading = replace(self._loading, fork=task is not None)
        answer = yield from loading.load(SkillCall.from_state(skill, runtime.tool_call_id, runtime.state), args)
        if task is not None and isinstance(answer, Delegation):
            return (yield from task.call(answer, runtime))
        return cast("LoadAnswer", answer)


def _list_tools(request: ModelRequest[Any]) -> frozenset[str]:
    """The names of the agent's tools; empty for a request outside of an agent, which has not even our own."""
    names = frozenset(str(tool.get("name")) if isinstance(tool, dict) else tool.name for tool in request.tools)
    return names if LOAD in names else frozenset()
