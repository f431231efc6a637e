"""`load_skill` and `unload_skill`, and the reconciliation of parallel calls with their results.

Calls of one message run in parallel and do not know of each other's results. A call refuses only what cannot succeed in
any case. When all results are there, `reconcile_calls` replays them in order, by the rule of the reducer of
`skills_loaded`, and corrects results that turned out wrong before the model sees them. Errors are strings for the
model; only a success is a `Command`.

`FilesystemMiddleware` moves long `ToolMessage`s into files. `prevent_eviction` passes long instructions on as mappings,
which it ignores and LangGraph turns into a `ToolMessage` again.
"""

import inspect
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, cast

from deepagents.middleware.skills import SkillsMiddleware as UpstreamMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from openskills.adapters.langchain import messages as texts
from openskills.adapters.langchain.backend_io import MAX_SKILL_BYTES, BackendRequest, Steps, download_files
from openskills.adapters.langchain.discovery import BackendDiscovery
from openskills.adapters.langchain.messages import (
    SkillMark,
    compute_digest,
    find_intact_loads,
    get_text,
    parse_mark,
    replace_own_text,
    replace_text,
)
from openskills.adapters.langchain.state import (
    LoadedChange,
    ResourceMetadata,
    SkillMetadata,
    ThreadState,
    discover_resources,
    get_extension,
)

LOAD, UNLOAD = "load_skill", "unload_skill"
_EDITED_CALLS = "hitl_edited_tool_calls"
"""Where LangChain stores calls that a person edited, by id; the message has the original ones."""


def _find_name(written: str, thread: ThreadState) -> str:
    """The known skill that a model wrote in backticks, in quotes or in another case; otherwise as written."""
    names = {*(skill["name"] for skill in thread.skills or ()), *thread.loaded}
    bare = written.strip(" `'\"\n")
    same = [bare] if bare in names else [name for name in names if name.casefold() == bare.casefold()]
    return same[0] if len(same) == 1 and written not in names else written


@dataclass(frozen=True, slots=True)
class SkillCall:
    """A call of one of our tools, with the state of the thread before the message that made it.

    `loads` and `unloads` are the skills of earlier calls in the same message, whose results are not known yet.
    """

    skill: str
    id: str
    thread: ThreadState
    loads: frozenset[str] = frozenset()
    unloads: frozenset[str] = frozenset()

    @classmethod
    def from_state(cls, skill: str, call_id: str | None, state: Mapping[str, Any]) -> "SkillCall":
        """Create the call with this id from the state of the graph."""
        thread = ThreadState(state)
        earlier = _find_earlier_calls(thread.messages, call_id, state.get(_EDITED_CALLS) or {})
        loads = frozenset(_find_name(name, thread) for tool, name in earlier if tool == LOAD)
        unloads = frozenset(_find_name(name, thread) for tool, name in earlier if tool == UNLOAD)
        return cls(_find_name(skill, thread), call_id or "", thread, loads, unloads)

    @property
    def still_loaded(self) -> list[str]:
        """The skills that are still loaded, whatever the results of the earlier calls are."""
        return [name for name in self.thread.loaded if name not in self.unloads]


def _find_earlier_calls(
    messages: Sequence[BaseMessage], call_id: str | None, edited: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Tool and skill of earlier calls in the same message that have no result yet.

    A call that has a result already was rejected by a person and did not run.
    """
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            calls = message.tool_calls
            place = next((index for index, call in enumerate(calls) if call["id"] == call_id), None)
            if place is None:
                return []
            made = (edited.get(call["id"] or "", call) for call in calls[:place] if call["id"] not in answered)
            ours = (call for call in made if call["name"] in {LOAD, UNLOAD})
            return [(call["name"], str(cast("Mapping[str, object]", call["args"]).get("skill_name"))) for call in ours]
    return []


GENERAL_PURPOSE = "general-purpose"


@dataclass(frozen=True, slots=True)
class Delegation:
    """A skill to run in a subagent: its instructions, and the name of the subagent."""

    description: str
    agent: str = GENERAL_PURPOSE


@dataclass(frozen=True, slots=True)
class TaskTool:
    """deepagents' `task` tool, called from another tool."""

    tool: Any

    @classmethod
    def find(cls, tools: Iterable[BaseTool | dict[str, Any]]) -> "TaskTool | None":
        """The `task` tool, or None if the agent does not have it."""
        found = next((tool for tool in tools if isinstance(tool, BaseTool) and tool.name == "task"), None)
        return cls(cast("Any", found)) if found is not None else None

    def find_upstream_subagents(self) -> list[str]:
        """The subagents that have upstream's skills middleware instead of ours."""
        closure = inspect.getclosurevars(self.tool.func).nonlocals
        graphs = cast("Mapping[str, Any]", closure.get("subagent_graphs") or {})
        found: list[str] = []
        for name, graph in graphs.items():
            node = getattr(graph, "nodes", {}).get("SkillsMiddleware.before_agent")
            hook = getattr(getattr(node, "bound", None), "func", None)
            found += [name] if type(getattr(hook, "__self__", None)) is UpstreamMiddleware else []
        return found

    def call(self, delegation: Delegation, runtime: Any) -> Steps[Any]:
        """Run the subagent."""
        arguments = {"description": delegation.description, "subagent_type": delegation.agent, "runtime": runtime}
        request = BackendRequest(lambda _: self.tool.func(**arguments), lambda _: self.tool.coroutine(**arguments))
        return (yield request)


logger = logging.getLogger(__name__)

LoadAnswer = Command[Any] | str


@dataclass(frozen=True, slots=True)
class SkillText:
    """The text of a SKILL.md and the digest of its bytes, or an `error` for the model."""

    text: str = ""
    digest: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SkillLoader:
    """Loads and unloads skills of `discovery`, at most `limit` at a time.

    With `manual` the model cannot load skills with `disable-model-invocation`. With `fork` a skill with `context: fork`
    becomes a `Delegation`. With `marked` the list of skills shows what is loaded.
    """

    discovery: BackendDiscovery
    limit: int
    manual: bool = False
    fork: bool = False
    marked: bool = True

    def load(self, call: SkillCall, args: str = "") -> Steps[LoadAnswer | Delegation]:
        """Load a skill: its instructions and the list of its files, or an error for the model."""
        skill, found, errors = yield from self._find_skill(call)
        if skill is None:
            return texts.format_unknown_skill(
                call.skill, [one["name"] for one in found or call.thread.skills or ()], errors
            )
        if self.manual and get_extension(skill, "disable_model_invocation"):
            return texts.format_manual_only(call.skill)
        if self.fork and get_extension(skill, "context") == "fork":
            return (yield from self._delegate(skill, args))
        again = call.skill in call.still_loaded
        if not again and len(call.still_loaded) >= self.limit:
            logger.warning("Skill loading limit reached (%d/%d)", len(call.still_loaded), self.limit)
            return texts.format_limit_reached(call.skill, call.still_loaded, self.limit)
        read = yield from read_skill(skill["path"])
        if again:
            known = find_intact_loads(call.thread.messages).get(call.skill)
            if read.error is not None or known is None or is_current(*known, read):
                return texts.format_already_loaded(call.skill)
        if read.error is not None:
            logger.error("Failed to read SKILL.md at %s: %s", skill["path"], read.error)
            return read.error
        listed = call.thread.resources.get(call.skill) if call.skill not in call.unloads and not again else None
        resources = listed if listed is not None else (yield from _list_resources(skill))
        logger.info("Skill '%s' loaded (%d resources discovered)", call.skill, len(resources))
        text = append_resources(insert_arguments(read.text, args), resources)
        mark = SkillMark(call.skill, "reload" if again else "load", call.thread.loaded, read.digest).for_text(text)
        return self._build_command(call, text, mark, resources, found)

    def _find_skill(
        self, call: SkillCall
    ) -> Steps[tuple[SkillMetadata | None, list[SkillMetadata] | None, Sequence[str]]]:
        """The skill of a call; after a new search also the list of skills and the errors.

        A search is needed after an interrupt, because a long list is not in checkpoints, and for new skills.
        """
        for skill in call.thread.skills_for(extended=self.discovery.extended) or ():
            if skill["name"] == call.skill:
                return skill, None, ()
        found, errors = yield from self.discovery.find_skills(tolerant=True)
        skill = next((skill for skill in found if skill["name"] == call.skill), None)
        # An incomplete list must not replace one that may be complete.
        return skill, None if errors and call.thread.skills else found, errors

    def unload(self, call: SkillCall) -> LoadAnswer:
        """Unload a skill. Its instructions stay in the conversation."""
        if call.skill not in call.thread.loaded and call.skill not in call.loads:
            return texts.format_not_loaded(call.skill, call.thread.loaded)
        remaining = [name for name in call.thread.loaded if name != call.skill]
        logger.info("Skill '%s' unloaded (%d/%d slots available)", call.skill, self.limit - len(remaining), self.limit)
        text = texts.format_unloaded(call.skill, remaining, self.limit, marked=self.marked)
        mark = SkillMark(call.skill, "unload", call.thread.loaded).for_text(text)
        update: dict[str, Any] = {
            "skills_loaded": LoadedChange(unload=[call.skill]),
            "skill_resources": {call.skill: None},
            "messages": [ToolMessage(text, tool_call_id=call.id, name=UNLOAD, additional_kwargs=mark.to_kwargs())],
        }
        return Command(update=update)

    def _delegate(self, skill: SkillMetadata, args: str) -> Steps[LoadAnswer | Delegation]:
        read = yield from read_skill(skill["path"])
        if read.error is not None:
            return read.error
        resources = yield from _list_resources(skill)
        text = append_resources(insert_arguments(read.text, args), resources)
        return Delegation(text, get_extension(skill, "agent") or GENERAL_PURPOSE)

    def _build_command(
        self,
        call: SkillCall,
        text: str,
        mark: SkillMark,
        resources: Sequence[ResourceMetadata],
        found: list[SkillMetadata] | None,
    ) -> Command[Any]:
        update: dict[str, Any] = {
            "skills_loaded": LoadedChange(load=[call.skill], limit=self.limit),
            "skill_resources": {call.skill: list(resources)},
            "messages": [ToolMessage(text, tool_call_id=call.id, name=LOAD, additional_kwargs=mark.to_kwargs())],
        }
        return Command(update=update if found is None else {**update, "skills_metadata": found})


def is_current(mark: SkillMark, message: BaseMessage, read: SkillText) -> bool:
    """Whether a message has the instructions as they are in the file now."""
    if mark.digest:
        return mark.digest == read.digest
    # A pinned skill: the first and the last line are upstream's.
    return get_text(message).partition("\n")[2].rpartition("\n")[0].strip() in read.text


def read_skill(path: str) -> Steps[SkillText]:
    """Read a SKILL.md; the result has an error when that fails."""
    (answer,) = yield from download_files([path], tolerant=True)
    content = answer.content
    if answer.error or content is None:
        return SkillText(error=f"Error: Failed to read skill file at {path}: {answer.error}")
    if len(content) > MAX_SKILL_BYTES:
        return SkillText(error=f"Error: Skill file at {path} exceeds maximum size ({MAX_SKILL_BYTES} bytes)")
    try:
        return SkillText(content.decode("utf-8"), compute_digest(content))
    except UnicodeDecodeError as error:
        return SkillText(error=f"Error: Failed to decode skill file: {error}")


def append_resources(text: str, resources: Sequence[ResourceMetadata]) -> str:
    """The instructions followed by the list of the skill's files."""
    if not resources:
        return text
    lines = (f"- [{resource['type']}] `{resource['path']}`" for resource in resources)
    return "\n".join([text, "\n\n---\n**Skill Resources:**\n", *lines])


def insert_arguments(text: str, args: str) -> str:
    """The instructions with `$ARGUMENTS` replaced, or with the arguments at the end."""
    if not args:
        return text
    return text.replace("$ARGUMENTS", args) if "$ARGUMENTS" in text else f"{text}\n\nARGUMENTS: {args}"


def _list_resources(skill: SkillMetadata) -> Steps[list[ResourceMetadata]]:
    return (yield from discover_resources(str(PurePosixPath(skill["path"]).parent), skill["name"]))


def reconcile_calls(messages: Sequence[BaseMessage], limit: int, *, tell_state: bool = False) -> dict[str, Any]:
    """The state update that corrects the results of the last calls; empty when all are correct.

    With `tell_state` the last result ends with the list of loaded skills.
    """
    batch = _find_last_results(messages)
    if not batch:
        return {}
    loaded = list(batch[0][0].before)
    corrected: list[ToolMessage] = []
    for mark, message in batch:
        right = _reconcile_call(mark, message, loaded, limit, marked=not tell_state)
        line = texts.format_state_line(loaded, limit)
        if mark is batch[-1][0] and tell_state and not get_text(right).endswith(line):
            right = replace_text(right, f"{get_text(right)}\n\n{line}")
        if right is not message:
            corrected.append(right)
    void = {mark.skill: None for mark, _ in batch if mark.is_load and mark.skill not in loaded}
    update: dict[str, Any] = {"messages": corrected} if corrected else {}
    return {**update, "skill_resources": void} if void and corrected else update


def _find_last_results(messages: Sequence[BaseMessage]) -> list[tuple[SkillMark, ToolMessage]]:
    """Our tool results at the end of the conversation, in order."""
    found: list[tuple[SkillMark, ToolMessage]] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage) and (mark := parse_mark(message)):
            found.append((mark, message))
    return found[::-1]


def _reconcile_call(
    mark: SkillMark, message: ToolMessage, loaded: list[str], limit: int, *, marked: bool
) -> ToolMessage:
    """The correct result of a call; updates `loaded`."""
    if mark.change == "none":
        return message
    if mark.change == "unload":
        if mark.skill not in loaded:
            return replace_own_text(message, texts.format_not_loaded(mark.skill, loaded), "none")
        loaded.remove(mark.skill)
        text = texts.format_unloaded(mark.skill, loaded, limit, marked=marked)
        return message if text in get_text(message) else replace_own_text(message, text)
    if mark.skill in loaded:
        is_reload = mark.change == "reload"
        return message if is_reload else replace_own_text(message, texts.format_already_loaded(mark.skill), "none")
    if len(loaded) >= limit:
        return replace_own_text(message, texts.format_limit_reached(mark.skill, loaded, limit), "none")
    loaded.append(mark.skill)
    return message


EVICTION_CHARS = 80_000
"""Maximum characters of a tool result that deepagents does not evict by default."""

USER_EVICTION_CHARS = 200_000
"""Maximum characters of a user message that deepagents does not evict by default."""


def prevent_eviction(result: ToolMessage | Command[Any], over: int) -> ToolMessage | Command[Any]:
    """The result of a load in a form that is not evicted, if it is longer than `over` characters."""
    update = result.update if isinstance(result, Command) else None
    if not isinstance(update, dict):
        return result
    changes = cast("dict[str, Any]", update)
    messages = [_to_mapping(message) if _is_long(message, over) else message for message in changes.get("messages", ())]
    return replace(cast("Command[Any]", result), update={**changes, "messages": messages})


def _is_long(message: object, over: int) -> bool:
    if not isinstance(message, ToolMessage) or len(get_text(message)) <= over:
        return False
    mark = parse_mark(message)
    return mark is not None and mark.is_load


def _to_mapping(message: ToolMessage) -> dict[str, Any]:
    return {
        "role": "tool",
        "content": get_text(message),
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "additional_kwargs": message.additional_kwargs,
    }
