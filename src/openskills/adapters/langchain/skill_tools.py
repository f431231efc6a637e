"""`load_skill` and `unload_skill` as LangChain tools, and the rules and hooks of loaded skills around tool calls."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

# With upstream's own names that the package exports, beside the class that takes the place of upstream's.
from deepagents.middleware.skills import SkillToolResolver as SkillToolResolver
from deepagents.middleware.skills import disclosed_skill_tool_names
from langchain.agents.middleware.types import ToolCallRequest
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.types import Command
from pydantic import BaseModel, Field

from openskills.adapters.langchain.backend_io import Steps
from openskills.adapters.langchain.discovery import BackendDiscovery
from openskills.adapters.langchain.hooks import HookCall, HookEvent, HookOutcome, run_hooks, select_hooks
from openskills.adapters.langchain.load import LOAD, UNLOAD, LoadAnswer, prevent_eviction
from openskills.adapters.langchain.messages import append_notes, get_text
from openskills.adapters.langchain.options import SkillOptions, ToolRule, collect_rules, find_refusal
from openskills.adapters.langchain.state import SkillMetadata, ThreadState, select_loaded_skills

LOAD_DESCRIPTION = (
    "Load a skill's full instructions and discover its resources. Use this instead of read_file when you need to "
    "activate a skill from the available skills list."
)
UNLOAD_DESCRIPTION = (
    "Unload a previously loaded skill to free up a loading slot. Use this when you have reached the maximum number of "
    "loaded skills and need to load a different one."
)

Runtime = ToolRuntime[Any, Any]
ToUnload = Annotated[str, "Name of the loaded skill to unload."]


class LoadSkillArguments(BaseModel):
    """The arguments of `load_skill`."""

    skill_name: str = Field(description="Name of the skill to load from the available skills list.")


class LoadSkillWithArguments(LoadSkillArguments):
    """The arguments of `load_skill` if skills take some."""

    args: str = Field("", description="Arguments for the skill, if its entry in the list shows that it takes them.")


def build_skill_tools(
    load_blocking: Callable[[str, str, Runtime], LoadAnswer],
    load: Callable[[str, str, Runtime], Awaitable[LoadAnswer]],
    unload: Callable[[str, Runtime], LoadAnswer],
    *,
    with_arguments: bool,
) -> list[BaseTool]:
    """The two tools; `with_arguments` adds `args` to `load_skill`."""

    def load_skill(skill_name: str, runtime: Runtime, args: str = "") -> Any:
        return load_blocking(skill_name, args, runtime)

    async def aload_skill(skill_name: str, runtime: Runtime, args: str = "") -> Any:
        return await load(skill_name, args, runtime)

    def unload_skill(skill_name: ToUnload, runtime: Runtime) -> Any:
        return unload(skill_name, runtime)

    async def aunload_skill(skill_name: ToUnload, runtime: Runtime) -> Any:
        return unload(skill_name, runtime)

    schema = LoadSkillWithArguments if with_arguments else LoadSkillArguments
    return [
        StructuredTool.from_function(
            load_skill, aload_skill, name=LOAD, description=LOAD_DESCRIPTION, args_schema=schema
        ),
        StructuredTool.from_function(unload_skill, aunload_skill, name=UNLOAD, description=UNLOAD_DESCRIPTION),
    ]


ToolOutput = ToolMessage | Command[Any]
NO_OUTCOME = HookOutcome()


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A checked call: `answer` is set if it was refused, otherwise `request` goes on."""

    request: ToolCallRequest
    skills: Sequence[SkillMetadata] = ()
    hook_outcome: HookOutcome = NO_OUTCOME
    answer: ToolOutput | None = None


@dataclass(frozen=True, slots=True)
class ToolCallGuard:
    """Applies the rules and hooks of loaded skills to tool calls."""

    options: SkillOptions
    discovery: BackendDiscovery
    whole_over: int

    def before_call(self, request: ToolCallRequest) -> Steps[ToolCallStart]:
        """Check a call before it runs; a subagent may inherit loaded skills and rules."""
        thread = _get_thread(request)
        if not thread.loaded and not thread.caller_rules:
            return ToolCallStart(request)
        restricts, runner = self.options.allowed_tools == "restrict", self.options.hooks
        skills = (yield from self._find_loaded_skills(thread)) if restricts or runner else ()
        rules = collect_rules(skills, thread.loaded, thread.caller_rules) if restricts else []
        call = request.tool_call
        free = self.options.always_allowed | disclosed_skill_tool_names(thread.state)
        reason = find_refusal(call["name"], cast("Mapping[str, Any]", call["args"]), rules, free)
        if reason is not None:
            return ToolCallStart(request, answer=_build_error(request, reason))
        noted = yield from self._run_hooks("PreToolUse", request, skills)
        if noted.blocked is not None:
            answer = append_notes(_build_error(request, noted.blocked), _get_call_id(request), (), noted.done)
            return ToolCallStart(request, answer=answer)
        return ToolCallStart(self._pass_to_subagent(request, thread, rules), skills, noted)

    def after_call(self, begun: ToolCallStart, result: ToolOutput) -> Steps[ToolOutput]:
        """Run hooks after the call, and protect the results of loads from eviction."""
        request = begun.request
        later = yield from self._run_hooks(
            "PostToolUse", request, begun.skills, _get_result_text(result, _get_call_id(request))
        )
        notes, done = (*begun.hook_outcome.notes, *later.notes), (*begun.hook_outcome.done, *later.done)
        result = append_notes(result, _get_call_id(request), notes, done)
        return prevent_eviction(result, self.whole_over) if request.tool_call["name"] == LOAD else result

    def _find_loaded_skills(self, thread: ThreadState) -> Steps[list[SkillMetadata]]:
        skills = thread.skills_for(extended=self.discovery.extended)
        if skills is None:
            skills, _ = yield from self.discovery.find_skills(tolerant=True)
        return select_loaded_skills(skills, thread.loaded)

    def _run_hooks(
        self, event: HookEvent, request: ToolCallRequest, skills: Sequence[SkillMetadata], result: str | None = None
    ) -> Steps[HookOutcome]:
        runner = self.options.hooks
        tool, arguments = request.tool_call["name"], cast("Mapping[str, Any]", request.tool_call["args"])
        # A skill must not prevent its own unloading.
        exempt = tool == UNLOAD and event == "PreToolUse"
        hooks = select_hooks(skills, event, tool) if runner is not None and not exempt else []
        if not hooks or runner is None:
            return NO_OUTCOME
        thread = _get_thread(request)
        # A one-time hook must not run twice, and not again for a later call of the same message.
        earlier = _find_earlier_tools(thread.messages, _get_call_id(request))
        ran = {hook.id for hook in hooks if hook.id in thread.hooks_done or any(map(hook.matches_tool, earlier))}
        due = [hook for hook in hooks if not hook.once or hook.id not in ran]
        by_name = {skill["name"]: skill for skill in skills}
        call = HookCall(event, tool, arguments, by_name, thread.resources, _get_thread_id(request), result)
        return (yield from run_hooks(due, call, runner))

    def _pass_to_subagent(
        self, request: ToolCallRequest, thread: ThreadState, rules: Sequence[ToolRule]
    ) -> ToolCallRequest:
        """Pass rules and inherited skills on, if the call may start a subagent."""
        forks = self.options.fork and request.tool_call["name"] == LOAD
        if request.tool_call["name"] != "task" and not forks:
            return request
        more: dict[str, Any] = {"skills_restricting": list(rules)} if rules else {}
        if self.options.inherit and not forks:
            more["skills_inherited"] = list(thread.loaded)
        if not more:
            return request
        runtime = _get_runtime(request)
        return replace(request, runtime=replace(runtime, state={**runtime.state, **more}))


def _find_earlier_tools(messages: Sequence[BaseMessage], call_id: str) -> list[str]:
    last = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    names: list[str] = []
    for call in last.tool_calls if last else ():
        if call["id"] == call_id:
            return names
        names.append(call["name"])
    return []


def _get_thread(request: ToolCallRequest) -> ThreadState:
    state = cast("object", request.state)
    return ThreadState(cast("Mapping[str, Any]", state) if isinstance(state, Mapping) else {})


def _get_thread_id(request: ToolCallRequest) -> str:
    config: Mapping[str, Any] = getattr(_get_runtime(request), "config", None) or {}
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    return str(configurable.get("thread_id") or "")


def _get_runtime(request: ToolCallRequest) -> Any:
    # Its type has parameters that the request leaves open.
    return request.__dict__["runtime"]


def _get_call_id(request: ToolCallRequest) -> str:
    return request.tool_call["id"] or ""


def _build_error(request: ToolCallRequest, text: str) -> ToolMessage:
    return ToolMessage(text, tool_call_id=_get_call_id(request), name=request.tool_call["name"], status="error")


def _get_result_text(result: ToolOutput, call_id: str) -> str:
    if isinstance(result, ToolMessage):
        return get_text(result)
    update = cast("object", result.update)
    messages = cast("dict[str, Any]", update).get("messages", ()) if isinstance(update, dict) else ()
    ours = (message for message in messages if isinstance(message, ToolMessage) and message.tool_call_id == call_id)
    return "\n".join(get_text(message) for message in ours)
