"""Texts into a request.

The messages that were made here, so that they are known when they come back. No clock, no I/O.

A caller may send us what we sent it. Every message that equals one of ours, field by field, is taken for what it was
made from; no text is ever searched for our marks, since anybody may write those.

Each loaded text to the place where the model reads it. Pure, but for what `MessageMemory` remembers; nothing raises.

In the tool results, everything is append-only: the body of a skill stands in the result of the first load since it was
gone, a document in the result of the call that selected it. No later load or selection changes anything above it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from openskills.prompt.blocks import (
    CONTEXT,
    Addition,
    LoadedSkill,
    LoadedText,
    Placement,
    PromptLayer,
    PromptPart,
    SkillBlock,
    format_already_loaded,
    format_docs_heading,
    format_withdrawn,
    render_addition,
)
from openskills.prompt.history import (
    SYSTEM_ROLES,
    TOOL_ROLES,
    Message,
    SkillAction,
    TextHistory,
    TextLocations,
    can_append_text,
    count_system_messages,
    get_field,
    get_items,
    get_part_texts,
    get_string,
    replay,
)
from openskills.session.state import LoadMode

_Key: TypeAlias = tuple[tuple[str, ...], str, str, str]

_CHANGEABLE_ROLES = (*SYSTEM_ROLES, *TOOL_ROLES)
"""Messages of the user and of the model are never changed."""


class _SentMessage(NamedTuple):
    message: Message
    original: Message | None
    """None for a message that was put in."""


class MessageMemory:
    """What one conversation was sent. Bounded in entries and in characters, but never below one request.

    It also keeps the texts of the last request, so that the same ones are not put together again.
    """

    def __init__(self, entries: int = 1_024, characters: int = 4_000_000) -> None:
        self._limits = (entries, characters)
        self._sent: dict[_Key, _SentMessage] = {}
        self._characters = 0
        self._now: set[_Key] = set()
        self._texts: dict[tuple[str, Addition], str] = {}
        self._texts_before: dict[tuple[str, Addition], str] = {}

    def restore_originals(self, messages: Sequence[Message]) -> list[Message]:
        """The messages without what was added to them or put between them here."""
        if not self._sent:
            return list(messages)
        found: list[Message] = []
        for message in messages:
            made = self._sent.get(_message_key(message)) if get_field(message, "role") in _CHANGEABLE_ROLES else None
            if made is None or made.message != message:
                found.append(message)
            elif made.original is not None:
                found.append(made.original)
        return found

    def extend(self, message: Message, added: Addition) -> dict[str, Any]:
        """A copy of a message with something at its end. Its content is text, parts, or nothing."""
        content = get_field(message, "content")
        if content is None or isinstance(content, str):
            new = self._render_text(content or "", added)
            return self._remember({**message, "content": new}, dict(message))
        parts = list(get_items(content))
        return self._remember(
            {**message, "content": [*parts, {"type": "text", "text": self._render_text("", added)}]},
            {**message, "content": parts},
        )

    def insert(self, role: str, added: Addition) -> dict[str, Any]:
        """A message of our own."""
        return self._remember({"role": role, "content": self._render_text("", added)}, None)

    def finish_request(self) -> None:
        """A request is complete: forget what is too old, and the texts that it does not have."""
        entries, characters = self._limits
        while len(self._sent) > entries or self._characters > characters:
            oldest = next(iter(self._sent))
            if oldest in self._now:
                break
            self._drop(oldest)
        self._now.clear()
        self._texts_before, self._texts = self._texts, {}

    def _render_text(self, content: str, added: Addition) -> str:
        key = (content, added)
        text = self._texts_before.get(key)
        if text is None:
            text = render_addition((content, *added) if content else added)
        self._texts[key] = text
        return text

    def _remember(self, message: dict[str, Any], original: Message | None) -> dict[str, Any]:
        key = _message_key(message)
        self._drop(key)
        self._sent[key] = _SentMessage(dict(message), original)
        self._characters += _size(key)
        self._now.add(key)
        return message

    def _drop(self, key: _Key) -> None:
        if self._sent.pop(key, None) is not None:
            self._characters -= _size(key)


def _message_key(message: object) -> _Key:
    """Cheap, and different for messages that differ, but for freaks: the texts, and who says them."""
    content = get_field(message, "content")
    texts = (content,) if isinstance(content, str) else get_part_texts(content)
    return texts, get_string(message, "role"), get_string(message, "tool_call_id"), get_string(message, "name")


def _size(key: _Key) -> int:
    return sum(map(len, key[0]))


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """A request: the messages, and what was done to them.

    `restored` names the skills of which something had no place in history, `withdrawn` those that were loaded in it and
    are not shown any more. `parts` are our texts in it.
    """

    messages: list[Message]
    restored: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    parts: tuple[PromptPart, ...] = ()


@dataclass(frozen=True, slots=True)
class _PlacementPlan:
    """What goes where: to the end of the first system message or of others by index, into a message of its own."""

    top: Addition = ()
    additions: Mapping[int, Addition] = field(default_factory=dict[int, Addition])
    extra: Addition = ()
    restored: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    parts: tuple[PromptPart, ...] = ()


def place_texts(
    messages: Sequence[Message],
    shown: Sequence[LoadedSkill],
    *,
    mode: LoadMode,
    placement: Placement,
    layer_one: str = "",
    guidance: str = "",
    notices: Sequence[str] = (),
    memory: MessageMemory | None = None,
) -> PromptRequest:
    """The messages with everything in them that is to be shown, each text once.

    `messages` and what they consist of stay as they are; a message that does not change is the same object in the
    result. `layer_one` and `guidance` are put at the end of the first message if that is a system message, else they
    become one. What has no place in history, and `notices`, stand in one more system message after those at the
    beginning; with `Placement.SYSTEM` everything stands at the end of the first one.

    With the same `memory`, the result may be given as `messages` again.
    """
    memory = MessageMemory() if memory is None else memory
    given = memory.restore_originals(messages)
    shown = list({one.skill: one for one in shown}.values())
    if placement is Placement.SYSTEM:
        plan = _plan_system(shown, notices)
    else:
        plan = _plan_results(replay(given, mode), shown, notices)
    top = (*(text for text in (layer_one, guidance) if text), *plan.top)
    placed = _assemble(given, top, plan, memory)
    memory.finish_request()
    first = [PromptPart(PromptLayer.OVERVIEW, "", layer_one), PromptPart(PromptLayer.GUIDANCE, "", guidance)]
    parts = (*(part for part in first if part.text), *plan.parts)
    return PromptRequest(placed, plan.restored, plan.withdrawn, parts)


def _plan_system(shown: Sequence[LoadedSkill], notices: Sequence[str]) -> _PlacementPlan:
    blocks = tuple(SkillBlock(one.skill, one.body, one.docs) for one in shown)
    return _PlacementPlan(
        (*blocks, *_join_notices(notices)), parts=tuple(part for block in blocks for part in _split_parts(block))
    )


def _plan_results(history: TextHistory, shown: Sequence[LoadedSkill], notices: Sequence[str]) -> _PlacementPlan:
    results: dict[int, Addition] = {}
    extra: list[str | SkillBlock] = []
    restored: list[str] = []
    parts: list[PromptPart] = []
    current: set[int] = set()
    for one in shown:
        held = history.find(one.skill)
        current.update(held.calls)
        found, lost = _split_by_location(one, held)
        results.update(_build_additions(history, held, found, one.skill))
        parts += (part for block in found.values() for part in _split_parts(block))
        if lost is not None:
            extra += [lost] if lost.body else [format_docs_heading(one.skill), lost]
            restored.append(one.skill)
            parts += (PromptPart(PromptLayer.FALLBACK, part.skill, part.text) for part in _split_parts(lost))
    gone = _find_stale(history, current)
    results.update((index, (format_withdrawn(skill),)) for index, skill in gone.items())
    names = {one.skill for one in shown}
    return _PlacementPlan(
        additions=results,
        extra=(CONTEXT, *_join_notices(notices), *extra) if extra or notices else (),
        restored=tuple(restored),
        withdrawn=tuple(dict.fromkeys(skill for skill in gone.values() if skill not in names)),
        parts=tuple(parts),
    )


def _split_by_location(one: LoadedSkill, held: TextLocations) -> tuple[dict[int, SkillBlock], SkillBlock | None]:
    """The texts of a skill by the message that holds them, and those that none holds."""
    docs: dict[int | None, list[LoadedText]] = {held.body: []}
    for doc in one.docs:
        docs.setdefault(held.find_doc(doc.path), []).append(doc)
    blocks = {
        index: SkillBlock(one.skill, one.body if index == held.body else None, tuple(found))
        for index, found in docs.items()
    }
    lost = blocks.pop(None, None)
    return {index: block for index, block in blocks.items() if index is not None}, lost


def _build_additions(
    history: TextHistory, held: TextLocations, found: Mapping[int, SkillBlock], skill: str
) -> Iterable[tuple[int, Addition]]:
    for index in dict.fromkeys((*held.calls, *found)):
        block = found.get(index)
        again = index != held.body and history.outcomes[index].action is SkillAction.LOAD
        added = (*((format_already_loaded(skill),) if again else ()), *((block,) if block else ()))
        if added:
            yield index, added


def _find_stale(history: TextHistory, current: set[int]) -> dict[int, str]:
    """Results that hold nothing any more. A selection of nothing never held anything."""
    return {
        index: found.skill
        for index, found in history.outcomes.items()
        if index not in current and (found.action is SkillAction.LOAD or found.docs)
    }


def _assemble(given: list[Message], top: Addition, plan: _PlacementPlan, memory: MessageMemory) -> list[Message]:
    count = count_system_messages(given)
    role = get_string(given[0], "role") if count else "system"
    placed = [
        memory.extend(message, plan.additions[index]) if index in plan.additions else message
        for index, message in enumerate(given)
    ]
    if plan.extra:
        placed.insert(count, memory.insert(role, plan.extra))
    if top and count and can_append_text(given[0]):
        placed[0] = memory.extend(given[0], top)
    elif top:
        placed.insert(0, memory.insert(role, top))
    return placed


def _join_notices(notices: Sequence[str]) -> Addition:
    return ("\n".join(notices),) if notices else ()


def _split_parts(block: SkillBlock) -> Iterable[PromptPart]:
    if block.body is not None:
        yield PromptPart(PromptLayer.BODY, block.skill, block.body.text)
    for doc in block.docs:
        yield PromptPart(PromptLayer.DOCS, block.skill, doc.text)
