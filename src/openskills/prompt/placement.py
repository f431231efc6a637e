"""Placement of loaded texts in the messages of a request. Nothing here raises.

With `Placement.TOOL_RESULT`, prompts are append-only: the body of a skill stands in the result of its first load, a
document in the result of the call that selected it. Later loads and selections change nothing above them.
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
    original: Message | None  # None for a message that was inserted


class MessageMemory:
    """Remembers the messages that were changed or inserted, so that they are recognized when they come back.

    Messages are compared as a whole; their texts are never searched for our markers, which anyone could write. Bounded
    in entries and characters, but holds at least one request. Also caches the rendered texts of the last request.
    """

    def __init__(self, entries: int = 1_024, characters: int = 4_000_000) -> None:
        self._limits = (entries, characters)
        self._sent: dict[_Key, _SentMessage] = {}
        self._characters = 0
        self._now: set[_Key] = set()
        self._texts: dict[tuple[str, Addition], str] = {}
        self._texts_before: dict[tuple[str, Addition], str] = {}

    def restore_originals(self, messages: Sequence[Message]) -> list[Message]:
        """Undo our additions and insertions in messages that come back."""
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
        """Return a copy of a message with texts appended. Its content is text, parts, or None."""
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
        """Return a new message."""
        return self._remember({"role": role, "content": self._render_text("", added)}, None)

    def finish_request(self) -> None:
        """Drop old messages and unused texts after a request."""
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
    """A cheap key: the texts, the role and the names of a message."""
    content = get_field(message, "content")
    texts = (content,) if isinstance(content, str) else get_part_texts(content)
    return texts, get_string(message, "role"), get_string(message, "tool_call_id"), get_string(message, "name")


def _size(key: _Key) -> int:
    return sum(map(len, key[0]))


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """The messages of a request.

    `restored` are skills with texts that had no place in the history, `withdrawn` those that were loaded there and are
    not shown any more. `parts` are the texts that were added.
    """

    messages: list[Message]
    restored: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    parts: tuple[PromptPart, ...] = ()


@dataclass(frozen=True, slots=True)
class _PlacementPlan:
    """Texts for the first system message (`top`), for messages by index, and for an extra message."""

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
    """Place every text once; return new messages.

    `messages` are not changed; unchanged messages are the same objects in the result. `layer_one` and `guidance` are
    appended to the first message if it is a system message, else they become one. Texts without a place in the history,
    and `notices`, go into one more system message after the initial ones; with `Placement.SYSTEM` everything goes to
    the end of the first. With the same `memory`, the result may be passed as `messages` again.
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
    """The texts of a skill by message index, and those without a place."""
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
    """Results whose texts are not shown any more; an empty selection never had any."""
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
