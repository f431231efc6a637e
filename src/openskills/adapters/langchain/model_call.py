"""Preparing runs and model calls: skills are discovered and reloaded, and every loaded skill is in the request.

Summaries, clearing and clipping remove messages from a request. Instructions of loaded skills that they removed are
restored from the messages of the thread; skills that cannot be restored are unloaded.

Upstream discloses the tools of a skill when it sees a result of `read_file`. `ReadFileView` shows it calls of
`load_skill` as calls of `read_file`, and restores the original messages afterwards.
"""

import html
import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.tracers.context import register_configure_hook
from langgraph.types import Command
from typing_extensions import override

from openskills.adapters.langchain import messages as wording
from openskills.adapters.langchain.backend_io import Steps
from openskills.adapters.langchain.discovery import BackendDiscovery
from openskills.adapters.langchain.load import USER_EVICTION_CHARS, is_current, read_skill
from openskills.adapters.langchain.messages import PINNED, SkillMark, find_intact_loads, get_text, parse_mark
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
    """The skills that include tools."""
    return [skill for skill in skills if (skill.get("metadata") or {}).get(INCLUDE_TOOLS)]


class ReadFileView:
    """A conversation in which calls of `load_skill` look like calls of `read_file`."""

    def __init__(self, messages: Sequence[AnyMessage], skills: Sequence[SkillMetadata]) -> None:
        paths = {skill["name"]: skill["path"] for skill in skills}
        loads = _find_loads(messages, paths) if paths else {}
        self._originals: dict[int, AnyMessage] = {}
        self.messages = [self._to_read(message, loads) for message in messages] if loads else list(messages)

    def restore(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """The original messages, together with any that were inserted."""
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
    """The paths of loaded skills by the id of the call."""
    found: dict[str, str] = {}
    for message in messages:
        mark = parse_mark(message) if message.additional_kwargs else None
        call = getattr(message, "tool_call_id", None)
        if mark and mark.is_load and call and mark.skill in paths:
            found[call] = paths[mark.skill]
    return found


@dataclass(frozen=True, slots=True)
class HiddenSkills:
    """Loaded skills that are missing in a request: texts to restore by name, and skills that cannot be restored."""

    restored: Mapping[str, str]
    forgotten: tuple[str, ...] = ()


NOTHING_HIDDEN = HiddenSkills({})


def find_hidden_skills(
    loaded: Sequence[str], shown: Iterable[BaseMessage], history: Iterable[BaseMessage], characters: int
) -> HiddenSkills:
    """The loaded skills that `shown` lacks, restored from `history` up to `characters`, most recently loaded first."""
    hidden = set(loaded) - find_intact_loads(shown).keys() if loaded else set[str]()
    if not hidden:
        return NOTHING_HIDDEN
    texts: dict[str, str] = {}
    known = find_intact_loads(history)
    for name in reversed(loaded):
        text = get_text(known[name][1]) if name in hidden and name in known else None
        if text is not None and len(text) <= characters:
            texts[name] = text
            characters -= len(text)
    in_order = {name: texts[name] for name in loaded if name in texts}
    return HiddenSkills(in_order, tuple(name for name in loaded if name in hidden and name not in texts))


def restore_messages(messages: Sequence[AnyMessage], sight: HiddenSkills, paths: Mapping[str, str]) -> list[AnyMessage]:
    """Insert restored instructions, and a note about forgotten skills, near the beginning.

    They come after the first message, which may be a summary, so that the prefix stays the same for prompt caches.
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
    """A message with the instructions of a skill, in the format of upstream's pinned skills.

    With the digest of the file it counts as a load of the skill.
    """
    attributes = f'name="{html.escape(name, quote=True)}" path="{html.escape(path, quote=True)}"'
    content = f"{intro}<skill {attributes}>\n{text}\n</skill>"
    # Upstream treats such a message like a read of the skill and discloses its tools.
    pinned = {"lc_source": PINNED, "skill": {"name": name, "path": path}}
    mark = SkillMark(name, "load", (), digest).for_text(content).to_kwargs() if digest else {}
    return HumanMessage(content, additional_kwargs={**pinned, **mark})


logger = logging.getLogger(__name__)


class SentMessages(BaseCallbackHandler):
    """Remembers the messages of the last call of a chat model."""

    run_inline = True

    def __init__(self) -> None:
        self.texts: frozenset[str] | None = None

    @override
    def on_chat_model_start(self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **kwargs: Any) -> None:
        self.texts = frozenset(get_text(message) for batch in messages for message in batch)


_sent_messages: ContextVar[SentMessages | None] = ContextVar("openskills_sent_messages", default=None)
register_configure_hook(_sent_messages, inheritable=True)


class TrimWarning:
    """Warns once when middleware that comes later removes the instructions of loaded skills from a request."""

    def __init__(self) -> None:
        self._is_given = False

    @contextmanager
    def watch(self, request: ModelRequest[Any]) -> Generator[None]:
        """Compare the messages of a request with those that the model gets inside the block."""
        loads = {} if self._is_given else find_intact_loads(request.messages)
        if not loads:
            yield
            return
        sent = SentMessages()
        token = _sent_messages.set(sent)
        try:
            yield
        finally:
            _sent_messages.reset(token)
        gone = [name for name, (_, message) in loads.items() if sent.texts and get_text(message) not in sent.texts]
        if gone:
            self._is_given = True
            logger.warning(
                "Middleware after SkillsMiddleware removed the instructions of loaded skills (%s) from the request; "
                "put middleware that trims or edits messages before SkillsMiddleware",
                ", ".join(gone),
            )


RENDERED_KEY = "openskills_rendered"
"""Set in the state of a request whose system message already has the section about skills."""


@dataclass(frozen=True, slots=True)
class ModelCallContext:
    """A model call: the request for upstream's hook, how to restore it, and the update of the thread's state."""

    upstream_request: ModelRequest[Any]
    reads: ReadFileView
    state: Any
    update: Mapping[str, Any]

    def restore_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request for the model or the next middleware."""
        return request.override(messages=self.reads.restore(request.messages), state=self.state)

    def build_response(self, response: ModelResponse[Any] | ExtendedModelResponse[Any]) -> Any:
        """The response with our state update added to upstream's."""
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
    """Prepares model calls. `render` adds the section about skills to a request.

    Up to `restored_characters` of loaded skills are restored when they are missing in a request.
    """

    models: Models | None
    discovery: BackendDiscovery
    restored_characters: int
    render: Callable[[ModelRequest[Any]], ModelRequest[Any]]
    _with_tools: ListCache[list[SkillMetadata]] = field(default_factory=ListCache[list[SkillMetadata]])

    def prepare(self, request: ModelRequest[Any]) -> Steps[ModelCallContext]:
        """Prepare a request for upstream's hook."""
        thread = ThreadState(cast("Mapping[str, Any]", request.state))
        skills, errors = thread.skills, thread.errors
        update: dict[str, Any] = {}
        if skills is None:
            # After an interrupt a long list is missing, because it is not in checkpoints.
            skills, errors = yield from self.discovery.find_skills(tolerant=True)
            # With new errors the next call searches again.
            update |= {"skills_metadata": skills} if errors == thread.errors else {}
        sight = find_hidden_skills(thread.loaded, request.messages, thread.messages, self.restored_characters)
        if sight.forgotten:
            update |= {"skills_loaded": LoadedChange(unload=list(sight.forgotten))}
            update |= {"skill_resources": dict.fromkeys(sight.forgotten)}
        loaded = [name for name in thread.loaded if name not in sight.forgotten]
        messages = request.messages
        if sight is not NOTHING_HIDDEN:
            messages = restore_messages(messages, sight, {skill["name"]: skill["path"] for skill in skills})
        seen = {**thread.state, "skills_metadata": skills, "skills_loaded": loaded, "skills_load_errors": errors}
        ready = request.override(messages=messages, state=cast("Any", seen))
        model = choose_model(self.models, select_loaded_skills(skills, loaded)) if self.models and loaded else None
        ready = self.render(ready if model is None else ready.override(model=model))
        # Upstream iterates over the whole list on each call, but only needs the skills with tools.
        tooled = self._with_tools.get(skills, None, lambda: select_with_tools(skills))
        reads = ReadFileView(ready.messages, tooled)
        view = {**cast("Mapping[str, Any]", ready.state), "skills_metadata": tooled, RENDERED_KEY: True}
        shown = ready.override(messages=reads.messages, state=cast("Any", view))
        return ModelCallContext(shown, reads, request.state, update)


@dataclass(frozen=True, slots=True)
class RunInitializer:
    """Computes the state update at the start of a run, for at most `limit` loaded skills.

    With `rescan` skills are searched again when their list comes from a checkpoint. With `tell_state` a message says
    which skills were unloaded, because the list of skills does not show it.
    """

    discovery: BackendDiscovery
    limit: int
    rescan: bool = True
    tell_state: bool = False

    def run(self, state: Mapping[str, Any]) -> Steps[SkillsStateUpdate | None]:
        """The state update at the start of a run; None without changes."""
        thread = ThreadState(state)
        skills = thread.skills_for(extended=self.discovery.extended)
        if skills is not None and not (self.rescan and isinstance(skills, CheckpointSkills)):
            # A conversation that has not begun needs no mark, and upstream writes nothing either.
            is_begun = thread.is_new and thread.messages
            begun = SkillsStateUpdate(skills_load_errors=[]) if is_begun else SkillsStateUpdate()
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
        """The skills of a new thread: those in its messages, if it is a fork, and those of its caller."""
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
        """Reload skills whose files have changed, and unload those that are gone."""
        if not thread.loaded:
            return None
        paths = {skill["name"]: skill["path"] for skill in skills}
        known = find_intact_loads(thread.messages)
        messages: list[BaseMessage] = []
        # The limit may have been reduced.
        gone = list(thread.loaded[: -self.limit])
        long: list[str] = []
        for name in thread.loaded[-self.limit :]:
            if name not in paths:
                # Keep skills of sources that could not be read.
                gone += [name] if complete else []
                continue
            read = yield from read_skill(paths[name])
            if read.error is not None:
                gone.append(name)
            elif name in known and not is_current(*known[name], read):
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
        parts = [wording.format_changed(long)] if long else []
        if self.tell_state and (gone or long):
            left = [name for name in thread.loaded if name not in {*gone, *long}]
            removed = [wording.format_removed(gone)] if gone else []
            parts = [*removed, *parts, wording.format_state_line(left, self.limit)]
        return "\n\n".join(parts)


def _build_update(thread: ThreadState, found: list[SkillMetadata], errors: list[str]) -> SkillsStateUpdate:
    """The update after a search; unchanged keys are left out, because every write is stored in the checkpoint."""
    update = SkillsStateUpdate()
    now = found
    if errors:
        # The rules of loaded skills still apply while their source cannot be read.
        names = {skill["name"] for skill in found}
        missing = [name for name in thread.loaded if name not in names]
        now = [*found, *(skill for skill in thread.skills or () if skill["name"] in missing)] if missing else found
    if now != thread.skills or len(now) > MAX_CHECKPOINT_SKILLS:
        update["skills_metadata"] = now
    if thread.is_new or errors != thread.errors:
        update["skills_load_errors"] = errors
    if "skills_loaded" not in thread.state:
        update["skills_loaded"] = []
    if "skill_resources" not in thread.state:
        update["skill_resources"] = {}
    return update


def _build_message(
    name: str, path: str, text: str, digest: str, intro: str, before: Sequence[BaseMessage]
) -> HumanMessage:
    return build_skill_message(name, path, text, intro="" if before else f"{intro}\n\n", digest=digest)
