"""Messages for the model about loading and unloading skills, and marks on them.

A mark in `additional_kwargs` says which skill a message loads or unloads. Other middleware clears, clips and evicts
messages but keeps their other fields, so the length and digest in the mark show whether the text is still complete.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, cast

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Command

from openskills.prompt.history import get_field, get_items, get_string

MARK_KEY = "openskills_skill"
"""The key of the mark in `additional_kwargs`, which are not sent to providers."""
PINNED = "pinned_skill"
"""The `lc_source` of messages with which upstream pins skills."""


Message = TypeVar("Message", bound=BaseMessage)
LoadChange = Literal["load", "reload", "unload", "none"]
_CHANGES: Mapping[object, LoadChange] = {"load": "load", "reload": "reload", "unload": "unload", "none": "none"}


@dataclass(frozen=True, slots=True)
class SkillMark:
    """What a message does with `skill`; `reload` is new text of a loaded skill, `none` a call without effect.

    `before` is what was loaded when the call began, `digest` that of the SKILL.md, `characters` the length of the
    message's text and `text` its digest.
    """

    skill: str
    change: LoadChange
    before: tuple[str, ...] = ()
    digest: str = ""
    characters: int = 0
    text: str = ""

    @property
    def is_load(self) -> bool:
        """Whether the message contains instructions."""
        return self.change in {"load", "reload"}

    def for_text(self, text: str) -> "SkillMark":
        """The mark for a message with this text."""
        return replace(self, characters=len(text), text=compute_digest(text.encode("utf-8", "surrogatepass")))

    def find_in(self, text: str) -> int | None:
        """The position of the marked text in `text`; None when it is incomplete.

        Other text may come before it, as when a person edited the call in LangChain, or after it.
        """
        more = len(text) - self.characters
        if more == 0:
            return 0
        if more < 0 or self.characters < 1 or not self.text:
            return None
        for place in (more, 0):
            part = text[place : place + self.characters]
            if compute_digest(part.encode("utf-8", "surrogatepass")) == self.text:
                return place
        return None

    def to_kwargs(self) -> dict[str, object]:
        """The `additional_kwargs` of a message with this mark."""
        plain = {"skill": self.skill, "change": self.change, "before": list(self.before)}
        return {MARK_KEY: {**plain, "digest": self.digest, "characters": self.characters, "text": self.text}}


def compute_digest(content: bytes) -> str:
    """A short digest of bytes."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def parse_mark(message: BaseMessage) -> SkillMark | None:
    """The mark of a message; None without a valid one."""
    extra = cast("Mapping[str, object]", message.additional_kwargs)
    raw = extra.get(MARK_KEY)
    if not isinstance(raw, Mapping):
        return _parse_pin(message, extra)
    skill, change = get_string(raw, "skill"), _CHANGES.get(get_field(raw, "change"))
    if not skill or change is None:
        return None
    before = tuple(name for name in get_items(get_field(raw, "before")) if isinstance(name, str))
    characters = get_field(raw, "characters")
    length = characters if isinstance(characters, int) else -1
    return SkillMark(skill, change, before, get_string(raw, "digest"), length, get_string(raw, "text"))


def _parse_pin(message: BaseMessage, extra: Mapping[str, object]) -> SkillMark | None:
    """The mark of a message with which upstream pins a skill; its digest is not known."""
    skill = extra.get("skill") if extra.get("lc_source") == PINNED else None
    name = cast("Mapping[str, object]", skill).get("name") if isinstance(skill, Mapping) else None
    return SkillMark(name, "load", characters=len(get_text(message))) if isinstance(name, str) else None


def get_text(message: BaseMessage) -> str:
    """The text of a message."""
    content = cast("object", message.content)
    return content if isinstance(content, str) else str(message.text)


def replace_text(message: Message, text: str, change: LoadChange | None = None) -> Message:
    """The message with another text and an updated mark; an incomplete text stays incomplete."""
    extra = cast("Mapping[str, object]", message.additional_kwargs)
    mark = parse_mark(message)
    if mark is not None:
        marked = replace(mark, change=change or mark.change)
        whole = mark.find_in(get_text(message)) is not None
        extra = {**extra, **(marked.for_text(text) if whole else replace(marked, characters=-1)).to_kwargs()}
    return message.model_copy(update={"content": text, "additional_kwargs": dict(extra)})


def replace_own_text(message: Message, text: str, change: LoadChange | None = None) -> Message:
    """The message with its marked text replaced, keeping text that others put before it."""
    old, mark = get_text(message), parse_mark(message)
    place = mark.find_in(old) if mark is not None else None
    return replace_text(message, f"{old[:place]}{text}" if place else text, change)


def find_intact_loads(messages: Iterable[BaseMessage]) -> dict[str, tuple[SkillMark, BaseMessage]]:
    """The skills whose instructions are completely in `messages` and were not unloaded, with mark and message."""
    found: dict[str, tuple[SkillMark, BaseMessage]] = {}
    for message in messages:
        # Fast path: this runs on every model call, and most messages have no extra fields.
        mark = parse_mark(message) if message.additional_kwargs else None
        if mark is None or mark.change == "none":
            continue
        found.pop(mark.skill, None)
        if mark.is_load and mark.find_in(get_text(message)) is not None:
            found[mark.skill] = (mark, message)
    return found


MAX_NAMED_SKILLS = 50
"""Maximum number of skills that an error for an unknown skill lists in full."""

MAX_ECHO_CHARS = 100
"""Maximum characters of an unknown name in an error."""

RESTORED_INTRO = (
    "You loaded these skills earlier in this conversation. The messages that held their instructions are no longer in "
    "your context, so here they are again:"
)
CHANGED_INTRO = (
    "The files of these skills have changed since you loaded them. From now on follow their new instructions:"
)
INHERITED_INTRO = "The agent that gave you this task works by these skills. They are loaded for you as well:"


def format_unknown_skill(name: str, available: Sequence[str], unread: Sequence[str] = ()) -> str:
    """Unknown skill: lists the available ones, or the most similar, and sources that could not be read."""
    begin = f"Error: Skill '{_truncate(name)}' not found. Available skills: "
    end = f". Some skills may be missing: {'; '.join(unread)}" if unread else ""
    if len(available) <= MAX_NAMED_SKILLS:
        return f"{begin}{', '.join(available)}{end}"
    near = get_close_matches(_truncate(name), available, n=10, cutoff=0.4) or available[:10]
    more = len(available) - len(near)
    return f"{begin}{', '.join(near)}, and {more} more in the skills list{end}"


def format_already_loaded(name: str) -> str:
    """The skill is loaded already."""
    return f"Skill '{name}' is already loaded. Its instructions are already active."


def format_limit_reached(name: str, loaded: Sequence[str], limit: int) -> str:
    """The maximum number of skills is loaded."""
    return (
        f"Error: Cannot load skill '{name}'. Maximum number of simultaneously loaded skills reached ({limit}). "
        f"Currently loaded: {', '.join(loaded)}. "
        f'Use `unload_skill("skill-name")` to unload a skill you no longer need, then retry loading.'
    )


def format_not_loaded(name: str, loaded: Sequence[str]) -> str:
    """The skill to unload is not loaded."""
    return (
        f"Error: Skill '{_truncate(name)}' is not currently loaded. "
        f"Currently loaded skills: {', '.join(loaded) if loaded else '(none)'}."
    )


def format_unloaded(name: str, remaining: Sequence[str], limit: int, *, marked: bool = True) -> str:
    """The skill was unloaded. With `marked` the list of skills shows what is loaded."""
    so = "will no longer be marked as [Loaded] in the skills list" if marked else "are no longer to be followed"
    return (
        f"Skill '{name}' has been unloaded. Currently loaded: {len(remaining)}/{limit} "
        f"({limit - len(remaining)} slot(s) available). Note: The skill's instructions from the previous load_skill "
        f"call are still in the conversation history but {so}."
    )


def format_removed(names: Sequence[str]) -> str:
    """Skills that were unloaded because their files are gone or the limit is lower now."""
    return (
        f"These skills are no longer loaded, because their files are gone or fewer skills may be loaded now: "
        f"{', '.join(names)}. Do not follow their instructions any more."
    )


def format_changed(names: Sequence[str]) -> str:
    """Skills that were unloaded because their new text is too long to insert."""
    return (
        f"The files of these skills have changed, and they are no longer loaded: {', '.join(names)}. "
        'Use `load_skill("skill-name")` to read their new instructions if you need them.'
    )


def format_manual_only(name: str) -> str:
    """Only a user may invoke this skill."""
    return (
        f"Error: Skill '{name}' is for manual use only and must not be loaded by the model. "
        "Ask the user to start it if it is needed."
    )


def format_state_line(loaded: Sequence[str], limit: int) -> str:
    """The loaded skills, for the `stable` listing, which does not show them."""
    return f"Loaded skills: {', '.join(loaded) if loaded else '(none)'} ({len(loaded)}/{limit})."


def format_forgotten(names: Sequence[str]) -> str:
    """Skills that left the context and could not be restored."""
    return (
        f"These skills are no longer loaded, because their instructions left your context: {', '.join(names)}. "
        'Use `load_skill("skill-name")` to load one again if you need it.'
    )


def _truncate(name: str) -> str:
    return name if len(name) <= MAX_ECHO_CHARS else f"{name[:MAX_ECHO_CHARS]}..."


def append_notes(
    result: ToolMessage | Command[Any], call_id: str, notes: Sequence[str], done: Sequence[str]
) -> ToolMessage | Command[Any]:
    """The result with `notes` at the end, and with the ids of `done` hooks in the state."""
    if not notes and not done:
        return result
    update: dict[str, Any] = {"skill_hooks_done": list(done)} if done else {}
    if isinstance(result, ToolMessage):
        message = _append_to_message(result, call_id, notes)
        return Command(update={"messages": [message], **update}) if done else cast("ToolMessage", message)
    changes = cast("object", result.update)
    if not isinstance(changes, dict):
        return result
    theirs = cast("dict[str, Any]", changes)
    messages = [_append_to_message(message, call_id, notes) for message in theirs.get("messages", ())]
    return replace(result, update={**theirs, "messages": messages, **update})


def _append_to_message(message: BaseMessage, call_id: str, notes: Sequence[str]) -> BaseMessage:
    if not isinstance(message, ToolMessage) or message.tool_call_id != call_id or not notes:
        return message
    return replace_text(message, "\n\n".join([get_text(message), *notes]))


_TOOL_NAMES: Mapping[str, str] = {
    "bash": "execute",
    "edit": "edit_file",
    "glob": "glob",
    "grep": "grep",
    "ls": "ls",
    "multiedit": "edit_file",
    "read": "read_file",
    "shell": "execute",
    "task": "task",
    "todowrite": "write_todos",
    "write": "write_file",
}


def to_tool_names(pattern: str) -> tuple[str, str]:
    """The tool that an entry of `allowed-tools` such as `Bash(git:*)` names, as written and in deepagents."""
    name = pattern.partition("(")[0].strip()
    # The tool `Read` of another client is `read_file`.
    return name, _TOOL_NAMES.get(name.lower(), name)


def list_tool_names(tool: str) -> tuple[str, ...]:
    """All names that skills may use for this tool in lower case, its own first."""
    return (tool.casefold(), *(other for other, here in _TOOL_NAMES.items() if here == tool and other != tool))
