"""What the model sees.

Loading a skill discloses its tools, as reading its file does.

Upstream looks for results of `read_file`. It is shown the conversation as if calls of `load_skill` were such; what it
passes on has the real ones again.

What a model sees of loaded skills: nothing that counts as loaded is out of its sight.

Summaries, clearing and clipping take messages out of a request. What they took of a loaded skill is given back from the
thread's own messages; what is nowhere any more, or does not fit, no longer counts as loaded.

One call of the model: what upstream's hook is shown of it, and what comes back.

What happens when a run begins: skills are found, and loaded ones compared with their files.
"""

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langgraph.types import Command

from openskills.adapters.langchain import messages as wording
from openskills.adapters.langchain.backend_io import Steps
from openskills.adapters.langchain.discovery import BackendDiscovery
from openskills.adapters.langchain.load import USER_EVICTION_CHARS, read_skill
from openskills.adapters.langchain.messages import SkillMark, find_intact_loads, get_text, parse_mark
from openskills.adapters.langchain.options import Models, choose_model
from openskills.adapters.langchain.state import (
    MAX_CHECKPOINT_SKILLS,
    CheckpointSkills,
    ListCache,
    LoadedChange,
    SkillMetadata,
    SkillsStateUpdate,
    ThreadState,
    select_loaded_skills,
)

INCLUDE_TOOLS = "include_tools"


def select_with_tools(skills: Sequence[SkillMetadata]) -> list[SkillMetadata]:
    """The skills that come with tools."""
    return [skill for skill in skills if (skill.get("metadata") or {}).get(INCLUDE_TOOLS)]


class ReadFileView:
    """A conversation in which loads look like reads."""

    def __init__(self, messages: Sequence[AnyMessage], skills: Sequence[SkillMetadata]) -> None:
        paths = {skill["name"]: skill["path"] for skill in skills}
        loads = _find_loads(messages, paths) if paths else {}
        self._originals: dict[int, AnyMessage] = {}
        self.messages = [self._to_read(message, loads) for message in messages] if loads else list(messages)

    def restore(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """The messages as they were, with whatever was put between them."""
        if not self._originals:
            return list(messages)
        return [self._originals.get(id(message), message) for message in messages]

    def _to_read(self, message: AnyMessage, loads: Mapping[str, str]) -> AnyMessage:
        if not isinstance(message, AIMessage) or not any(call["id"] in loads for call in message.tool_calls):
            return message
        calls = [
            {**call, "name": "read_file", "args": {"file_path": loads[call["id"]]}} if call["id"] in loads else call
            for call in cast("list[dict[str, Any]]", message.tool_calls)
        ]
        read = message.model_copy(update={"tool_calls": calls})
        self._originals[id(read)] = message
        return read


def _find_loads(messages: Sequence[AnyMessage], paths: Mapping[str, str]) -> dict[str, str]:
    """The paths of the skills that were loaded, by the id of the call."""
    found: dict[str, str] = {}
    for message in messages:
        mark = parse_mark(message) if message.additional_kwargs else None
        call = getattr(message, "tool_call_id", None)
        if mark and mark.is_load and call and mark.skill in paths:
            found[call] = paths[mark.skill]
    return found


@dataclass(frozen=True, slots=True)
class HiddenSkills:
    """`restored`: texts of skills that are out of sight, by name. `forgotten`: skills that stay out of it."""

    restored: Mapping[str, str]
    forgotten: tuple[str, ...] = ()


NOTHING_HIDDEN = HiddenSkills({})


def find_hidden_skills(
    loaded: Sequence[str], shown: Iterable[BaseMessage], history: Iterable[BaseMessage], characters: int
) -> HiddenSkills:
    """What `shown` lacks of the loaded skills, as far as `history` has it. At most so many characters are given back.

    The skills that were loaded last come first.
    """
    hidden = set(loaded) - find_intact_loads(shown).keys() if loaded else set[str]()
    if not hidden:
        return NOTHING_HIDDEN
    kept: dict[str, str] = {}
    known = find_intact_loads(history)
    for name in reversed(loaded):
        text = get_text(known[name][1]) if name in hidden and name in known else None
        if text is not None and len(text) <= characters:
            kept[name] = text
            characters -= len(text)
    in_order = {name: kept[name] for name in loaded if name in kept}
    return HiddenSkills(in_order, tuple(name for name in loaded if name in hidden and name not in kept))


def restore_messages(messages: Sequence[AnyMessage], sight: HiddenSkills, paths: Mapping[str, str]) -> list[AnyMessage]:
    """The messages with what is given back, and with word of what is not, near their beginning.

    After a summary, which is the first message: so what comes before it stays the same from call to call.
    """
    more: list[AnyMessage] = []
    for name, text in sight.restored.items():
        intro = f"{wording.RESTORED_INTRO}\n\n" if not more else ""
        more.append(build_skill_message(name, paths.get(name, ""), text, intro=intro))
    if sight.forgotten:
        more.append(HumanMessage(wording.format_forgotten(sight.forgotten)))
    place = 1 if messages and isinstance(messages[0], HumanMessage) else 0
    return [*messages[:place], *more, *messages[place:]]


def build_skill_message(name: str, path: str, text: str, *, intro: str = "", digest: str = "") -> HumanMessage:
    """A message that holds the instructions of a skill, in the form of upstream's pinned skills.

    With the digest of the file it counts as a loading of the skill.
    """
    attributes = f'name="{html.escape(name, quote=True)}" path="{html.escape(path, quote=True)}"'
    content = f"{intro}<skill {attributes}>\n{text}\n</skill>"
    # Upstream takes such a message for a reading of the skill and discloses the tools that come with it.
    pinned = {"lc_source": "pinned_skill", "skill": {"name": name, "path": path}}
    mark = SkillMark(name, "load", (), digest).for_text(content).to_kwargs() if digest else {}
    return HumanMessage(content, additional_kwargs={**pinned, **mark})


RENDERED_KEY = "openskills_rendered"
"""In the state of a request whose system message has the section about skills already."""


@dataclass(frozen=True, slots=True)
class ModelCallContext:
    """`shown` is for upstream's hook, which discloses tools; `real` makes what it passes on right again.

    `update` is what the call changes in the thread.
    """

    upstream_request: ModelRequest[Any]
    reads: ReadFileView
    state: Any
    update: Mapping[str, Any]

    def restore_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """What the model, or the next middleware, is to get."""
        return request.override(messages=self.reads.restore(request.messages), state=self.state)

    def build_response(self, response: ModelResponse[Any] | ExtendedModelResponse[Any]) -> Any:
        """The response with our changes beside upstream's."""
        if not self.update:
            return response
        if not isinstance(response, ExtendedModelResponse):
            return ExtendedModelResponse(model_response=response, command=Command(update=dict(self.update)))
        theirs = cast("Mapping[str, Any]", (response.command and response.command.update) or {})
        return ExtendedModelResponse(
            model_response=response.model_response, command=Command(update={**theirs, **self.update})
        )


@dataclass(frozen=True, slots=True)
class ModelCallPreparer:
    """Prepares calls of the model. `render` puts the section about skills into a request.

    Up to `restored_characters` of loaded skills are given back when history lost them.
    """

    models: Models | None
    discovery: BackendDiscovery
    restored_characters: int
    render: Callable[[ModelRequest[Any]], ModelRequest[Any]]
    _with_tools: ListCache[list[SkillMetadata]] = field(default_factory=ListCache[list[SkillMetadata]])

    def prepare(self, request: ModelRequest[Any]) -> Steps[ModelCallContext]:
        """Make a request ready for upstream's hook."""
        thread = ThreadState(cast("Mapping[str, Any]", request.state))
        skills, errors = thread.skills, thread.errors
        update: dict[str, Any] = {}
        if skills is None:
            # A long list is not in checkpoints, so after an interrupt it has to be found again.
            skills, errors = yield from self.discovery.find_skills(tolerant=True)
            # What could not be read now, and could before, is looked for again by the next call.
            update |= {"skills_metadata": skills} if errors == thread.errors else {}
        sight = find_hidden_skills(thread.loaded, request.messages, thread.messages, self.restored_characters)
        update |= _build_unload_update(sight)
        loaded = [name for name in thread.loaded if name not in sight.forgotten]
        messages = request.messages
        if sight is not NOTHING_HIDDEN:
            messages = restore_messages(messages, sight, {skill["name"]: skill["path"] for skill in skills})
        seen = {**thread.state, "skills_metadata": skills, "skills_loaded": loaded, "skills_load_errors": errors}
        ready = request.override(messages=messages, state=cast("Any", seen))
        return self._build_call(self.render(self._select_model(ready, skills, loaded)), skills, request.state, update)

    def _select_model(
        self, request: ModelRequest[Any], skills: Sequence[SkillMetadata], loaded: Sequence[str]
    ) -> ModelRequest[Any]:
        model = choose_model(self.models, select_loaded_skills(skills, loaded)) if self.models and loaded else None
        return request.override(model=model) if model is not None else request

    def _build_call(
        self, request: ModelRequest[Any], skills: Sequence[SkillMetadata], state: Any, update: Mapping[str, Any]
    ) -> ModelCallContext:
        # Upstream goes through the whole list on each call; only skills with tools concern it.
        tooled = self._with_tools.get(skills, None, lambda: select_with_tools(skills))
        reads = ReadFileView(request.messages, tooled)
        view = {**cast("Mapping[str, Any]", request.state), "skills_metadata": tooled, RENDERED_KEY: True}
        shown = request.override(messages=reads.messages, state=cast("Any", view))
        return ModelCallContext(shown, reads, state, update)


def _build_unload_update(sight: HiddenSkills) -> dict[str, Any]:
    if not sight.forgotten:
        return {}
    change = LoadedChange(unload=list(sight.forgotten))
    return {"skills_loaded": change, "skill_resources": dict.fromkeys(sight.forgotten)}


@dataclass(frozen=True, slots=True)
class RunInitializer:
    """Begins runs of threads with at most `limit` loaded skills.

    With `rescan` a list of skills that comes out of a checkpoint is looked for again, because files may have changed.
    With `tell_state` a message says what is no longer loaded, because the list of skills does not.
    """

    discovery: BackendDiscovery
    limit: int
    rescan: bool = True
    tell_state: bool = False

    def run(self, state: Mapping[str, Any]) -> Steps[SkillsStateUpdate | None]:
        """The update of the state with which the run begins; None when there is nothing to change."""
        thread = ThreadState(state)
        skills = thread.skills_for(extended=self.discovery.extended)
        if skills is not None and not (self.rescan and isinstance(skills, CheckpointSkills)):
            begun = SkillsStateUpdate(skills_load_errors=[]) if thread.is_new else SkillsStateUpdate()
            begun.update((yield from self._load_initial_skills(thread, skills)) or {})
            return begun or None
        found, errors = yield from self.discovery.find_skills()
        begun = _build_update(thread, found, errors)
        more = (yield from self._load_initial_skills(thread, found)) or (
            yield from self._reload_changed(thread, found, not errors)
        )
        begun.update(more or {})
        return begun or None

    def _load_initial_skills(
        self, thread: ThreadState, skills: Sequence[SkillMetadata]
    ) -> Steps[SkillsStateUpdate | None]:
        """What a new thread begins with.

        Its messages load skills if it is a fork, or if its history was passed in. A subagent may get those of its
        caller.
        """
        if not thread.is_new or thread.loaded:
            return None
        names = list(find_intact_loads(thread.messages))[-self.limit :]
        messages: list[BaseMessage] = []
        paths = {skill["name"]: skill["path"] for skill in skills} if thread.caller_skills else {}
        for name in thread.caller_skills:
            if name in names or name not in paths or len(names) >= self.limit:
                continue
            read = yield from read_skill(paths[name])
            if read.error is None:
                names.append(name)
                messages.append(
                    _build_message(name, paths[name], read.text, read.digest, wording.INHERITED_INTRO, messages)
                )
        if not names:
            return None
        update = SkillsStateUpdate(skills_loaded=LoadedChange(load=names, limit=self.limit))
        if messages:
            update["messages"] = messages
        return update

    def _reload_changed(
        self, thread: ThreadState, skills: Sequence[SkillMetadata], complete: bool
    ) -> Steps[SkillsStateUpdate | None]:
        """What changed in the files of loaded skills; a skill that is gone is no longer loaded."""
        if not thread.loaded:
            return None
        paths = {skill["name"]: skill["path"] for skill in skills}
        known = find_intact_loads(thread.messages)
        messages: list[BaseMessage] = []
        # The limit may be lower than it was when they were loaded.
        gone = list(thread.loaded[: -self.limit])
        long: list[str] = []
        for name in thread.loaded[-self.limit :]:
            if name not in paths:
                # A source that could not be read says nothing about its skills.
                gone += [name] if complete else []
                continue
            read = yield from read_skill(paths[name])
            if read.error is not None:
                gone.append(name)
            elif name in known and known[name][0].digest != read.digest:
                message = _build_message(name, paths[name], read.text, read.digest, wording.CHANGED_INTRO, messages)
                if len(get_text(message)) > USER_EVICTION_CHARS:
                    long.append(name)
                else:
                    messages.append(message)
        note = self._format_note(thread, gone, long)
        messages += [HumanMessage(note, additional_kwargs={"lc_source": "openskills"})] if note else []
        update = SkillsStateUpdate(messages=messages) if messages else SkillsStateUpdate()
        if gone or long:
            update["skills_loaded"] = LoadedChange(unload=[*gone, *long])
            update["skill_resources"] = dict.fromkeys([*gone, *long])
        return update or None

    def _format_note(self, thread: ThreadState, gone: Sequence[str], long: Sequence[str]) -> str:
        """What the model has to be told of skills that are no longer loaded."""
        parts = [wording.format_changed(long)] if long else []
        if self.tell_state and (gone or long):
            left = [name for name in thread.loaded if name not in {*gone, *long}]
            parts = [
                *([wording.format_removed(gone)] if gone else []),
                *parts,
                wording.format_state_line(left, self.limit),
            ]
        return "\n\n".join(parts)


def _build_update(thread: ThreadState, found: list[SkillMetadata], errors: list[str]) -> SkillsStateUpdate:
    """What a search changes in a thread. What stays the same is left out: the checkpointer keeps every write."""
    update = SkillsStateUpdate()
    kept = _find_unread(thread, found) if errors else []
    now = [*found, *kept] if kept else found
    if now != thread.skills or len(now) > MAX_CHECKPOINT_SKILLS:
        update["skills_metadata"] = now
    if thread.is_new or errors != thread.errors:
        update["skills_load_errors"] = errors
    if "skills_loaded" not in thread.state:
        update["skills_loaded"] = []
    if "skill_resources" not in thread.state:
        update["skill_resources"] = {}
    return update


def _find_unread(thread: ThreadState, found: Sequence[SkillMetadata]) -> list[SkillMetadata]:
    """What was known of loaded skills that were not found now: their rules hold while their source cannot be read."""
    names = {skill["name"] for skill in found}
    return [skill for skill in thread.skills or () if skill["name"] in thread.loaded and skill["name"] not in names]


def _build_message(
    name: str, path: str, text: str, digest: str, intro: str, before: Sequence[BaseMessage]
) -> HumanMessage:
    return build_skill_message(name, path, text, intro="" if before else f"{intro}\n\n", digest=digest)
