"""What happens around one call of a tool: rules of loaded skills before it, their hooks before and after it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from deepagents.middleware.skills import disclosed_skill_tool_names
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.types import Command

from openskills.adapters.langchain.calls import LOAD, UNLOAD
from openskills.adapters.langchain.discovery import Discovery
from openskills.adapters.langchain.eviction import kept_whole
from openskills.adapters.langchain.hook_runs import HookedCall, Noted, run_hooks
from openskills.adapters.langchain.marks import text_of
from openskills.adapters.langchain.metadata import SkillMetadata, loaded_skills
from openskills.adapters.langchain.notes import with_notes
from openskills.adapters.langchain.options import SkillOptions
from openskills.adapters.langchain.restriction import Rule, refusal, rules_of
from openskills.adapters.langchain.skill_hooks import Event, Hook, hooks_for
from openskills.adapters.langchain.steps import Steps
from openskills.adapters.langchain.thread import Thread

Result = ToolMessage | Command[Any]
NOTHING = Noted()


@dataclass(frozen=True, slots=True)
class Begun:
    """A call that was looked at: it is answered already, or goes on as `request`."""

    request: ToolCallRequest
    skills: Sequence[SkillMetadata] = ()
    noted: Noted = NOTHING
    answer: Result | None = None


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Looks after calls of tools. With no option on, only the results of loads get something."""

    options: SkillOptions
    discovery: Discovery
    whole_over: int

    def begin(self, request: ToolCallRequest) -> Steps[Begun]:
        """Before the call: it may be refused, and a subagent may get the skills that are loaded."""
        thread = _thread(request)
        if not thread.loaded and not thread.restricting:
            return Begun(request)
        restricts, runner = self.options.allowed_tools == "restrict", self.options.hooks
        skills = (yield from self._loaded(thread)) if restricts or runner else ()
        rules = rules_of(skills, thread.loaded, thread.restricting) if restricts else []
        reason = self._refusal(request, rules, thread)
        if reason is not None:
            return Begun(request, answer=_error(request, reason))
        noted = yield from self._hooks("PreToolUse", request, skills)
        if noted.blocked is not None:
            answer = with_notes(_error(request, noted.blocked), _id(request), (), noted.done)
            return Begun(request, answer=answer)
        return Begun(self._passed_on(request, thread, rules), skills, noted)

    def end(self, begun: Begun, result: Result) -> Steps[Result]:
        """After the call: what hooks have to say, and a load that nobody evicts."""
        request = begun.request
        later = yield from self._hooks("PostToolUse", request, begun.skills, _text(result, _id(request)))
        notes, done = (*begun.noted.notes, *later.notes), (*begun.noted.done, *later.done)
        result = with_notes(result, _id(request), notes, done)
        return kept_whole(result, self.whole_over) if request.tool_call["name"] == LOAD else result

    def _loaded(self, thread: Thread) -> Steps[list[SkillMetadata]]:
        skills = thread.skills_for(extended=self.discovery.extended)
        if skills is None:
            skills, _ = yield from self.discovery.skills(tolerant=True)
        return loaded_skills(skills, thread.loaded)

    def _refusal(self, request: ToolCallRequest, rules: Sequence[Rule], thread: Thread) -> str | None:
        call = request.tool_call
        free = self.options.always_allowed | disclosed_skill_tool_names(thread.state)
        return refusal(call["name"], cast("Mapping[str, Any]", call["args"]), rules, free)

    def _hooks(
        self, event: Event, request: ToolCallRequest, skills: Sequence[SkillMetadata], result: str | None = None
    ) -> Steps[Noted]:
        runner = self.options.hooks
        tool, arguments = request.tool_call["name"], cast("Mapping[str, Any]", request.tool_call["args"])
        # Nobody is kept from getting rid of a skill by the skill.
        exempt = tool == UNLOAD and event == "PreToolUse"
        hooks = hooks_for(skills, event, tool) if runner is not None and not exempt else []
        if not hooks or runner is None:
            return NOTHING
        thread = _thread(request)
        due = [hook for hook in hooks if not hook.once or _is_due(hook, thread, _id(request))]
        by_name = {skill["name"]: skill for skill in skills}
        call = HookedCall(event, tool, arguments, by_name, thread.resources, _thread_id(request), result)
        return (yield from run_hooks(due, call, runner))

    def _passed_on(self, request: ToolCallRequest, thread: Thread, rules: Sequence[Rule]) -> ToolCallRequest:
        """A call that may reach a subagent: with what is loaded, if it is to inherit that, and with the rules."""
        forks = self.options.fork and request.tool_call["name"] == LOAD
        if request.tool_call["name"] != "task" and not forks:
            return request
        more: dict[str, Any] = {"skills_restricting": list(rules)} if rules else {}
        if self.options.inherit and not forks:
            more["skills_inherited"] = list(thread.loaded)
        if not more:
            return request
        runtime = _runtime(request)
        return replace(request, runtime=replace(runtime, state={**runtime.state, **more}))


def _is_due(hook: Hook, thread: Thread, call_id: str) -> bool:
    """Whether a hook that runs once has not run, and is not about to run for an earlier call of the same message."""
    return hook.id not in thread.hooks_done and not any(
        hook.fits(name) for name in _earlier_tools(thread.messages, call_id)
    )


def _earlier_tools(messages: Sequence[BaseMessage], call_id: str) -> list[str]:
    last = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    names: list[str] = []
    for call in last.tool_calls if last else ():
        if call["id"] == call_id:
            return names
        names.append(call["name"])
    return []


def _thread(request: ToolCallRequest) -> Thread:
    state = cast("object", request.state)
    return Thread(cast("Mapping[str, Any]", state) if isinstance(state, Mapping) else {})


def _thread_id(request: ToolCallRequest) -> str:
    config: Mapping[str, Any] = getattr(_runtime(request), "config", None) or {}
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    return str(configurable.get("thread_id") or "")


def _runtime(request: ToolCallRequest) -> Any:
    # Its type has parameters that the request leaves open.
    return request.__dict__["runtime"]


def _id(request: ToolCallRequest) -> str:
    return request.tool_call["id"] or ""


def _error(request: ToolCallRequest, text: str) -> ToolMessage:
    return ToolMessage(text, tool_call_id=_id(request), name=request.tool_call["name"], status="error")


def _text(result: Result, call_id: str) -> str:
    """What a tool answered."""
    if isinstance(result, ToolMessage):
        return text_of(result)
    update = cast("object", result.update)
    messages = cast("dict[str, Any]", update).get("messages", ()) if isinstance(update, dict) else ()
    ours = (message for message in messages if isinstance(message, ToolMessage) and message.tool_call_id == call_id)
    return "\n".join(text_of(message) for message in ours)
