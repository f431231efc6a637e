"""Placement of loaded texts in the messages of a request. Nothing here raises.

With `Placement.TOOL_RESULT`, prompts are append-only: the body of a skill stands in the result of its first load, a
document in the result of the call that selected it. Later loads and selections change nothing above them.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, cast

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
    HistoryReplay,
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
)
from openskills.session.state import LoadMode

_Key: TypeAlias = tuple[tuple[str, ...], str, str, str]

_CHANGEABLE_ROLES = (*SYSTEM_ROLES, *TOOL_ROLES)
"""Messages of the user and of the model are never changed."""


class _MadeMessage(NamedTuple):
    """A message that was changed or inserted; then it has no `original`."""

    key: _Key
    message: dict[str, Any]
    original: Message | None
    added: Addition


_NOTHING: Message = {}
"""Instead of the original of a message that was inserted."""
_TOP, _EXTRA = -2, -1
"""Instead of the index of a message: the inserted messages before and after the initial system messages."""


class GivenMessages(NamedTuple):
    """The messages of a caller without our additions, and where texts are in them.

    The first `same` messages of the caller, and the first `unchanged` here, are those of the last request.
    """

    messages: Sequence[Message]
    history: TextHistory
    same: int = 0
    unchanged: int = 0


class MessageMemory:
    """Remembers the last request, to read and change only new messages, and what was changed or inserted, to recognize
    it when it comes back.

    Messages are compared as a whole; their texts are never searched for our markers, which anyone could write. Bounded
    in entries and characters, but holds at least one request.
    """

    def __init__(self, entries: int = 1_024, characters: int = 4_000_000) -> None:
        self._limits = (entries, characters)
        self._sent: dict[_Key, _MadeMessage] = {}
        self._new: list[_MadeMessage] = []
        self._characters = 0
        self._copies: list[object] = []
        self._originals: dict[int, Message] = {}
        self._replay = HistoryReplay(LoadMode.TURN)
        self._replayed = 0
        self._read: tuple[LoadMode, TextHistory] | None = None
        self._last: tuple[object, TextHistory, PromptRequest, int] | None = None
        self._made: dict[int, _MadeMessage] = {}
        self._made_last: dict[int, _MadeMessage] = {}
        self._made_before: dict[int, _MadeMessage] = {}

    def read(self, messages: Sequence[Message], mode: LoadMode) -> GivenMessages:
        """Undo our additions and insertions in messages that come back, and find where texts are."""
        self._index_new()
        copies, same = self._copies, min(len(messages), len(self._copies))
        # Fast path: almost always, messages were only added, or the last one is another.
        last = max(same - 1, 0)
        if messages[:last] != copies[:last]:
            same = next((index for index in range(last) if messages[index] != copies[index]), 0)
        elif messages[last:same] != copies[last:same]:
            same = last
        if same < max(len(messages), len(copies)):
            copies[same:] = map(_copy_plain, messages[same:])
        elif self._read is not None and self._read[0] is mode and not self._originals:
            # All of them are those of the last request.
            return GivenMessages(list(messages), self._read[1], same, same)
        originals = {index: message for index, message in self._originals.items() if index < same}
        for index in range(same, len(messages) if self._sent else same):
            message = messages[index]
            made = self._sent.get(_message_key(message)) if get_field(message, "role") in _CHANGEABLE_ROLES else None
            if made is not None and made.message == message:
                originals[index] = _NOTHING if made.original is None else made.original
        self._originals = originals
        # One replay waits where the last two requests parted, because the next one is likely to part there or later.
        if mode is not self._replay.mode or same < self._replayed:
            self._replay, self._replayed = HistoryReplay(mode), 0
        found = [originals.get(index, message) for index, message in enumerate(messages)] if originals else messages
        self._replay.add_all([message for message in found[self._replayed : same] if message is not _NOTHING])
        self._replayed = same
        history = self._replay.continue_with([message for message in found[same:] if message is not _NOTHING])
        self._read = (mode, history)
        kept = [message for message in found if message is not _NOTHING] if originals else list(messages)
        return GivenMessages(kept, history, same, self._replay.count)

    def keep(self, asked: object, given: GivenMessages, made: "PromptRequest", has_extra: bool) -> None:
        """Remember a request, and what it was made from."""
        count = count_system_messages(given.messages)
        # A system message is inserted at the top only if the first message is not one.
        first = 0 if _TOP in self._made_before else -1
        last = max([*self._made_before, first, count if has_extra else -1])
        # A message in parts is made again each time.
        self._last = (asked, given.history, made, last) if len(self._made_before) == len(self._made_last) else None

    def reuse(self, given: GivenMessages, asked: object) -> "PromptRequest | None":
        """The request with the texts of the last one, if only messages that have none are new."""
        if self._last is None or given.unchanged <= self._last[3] or (asked, given.history) != self._last[:2]:
            return None
        made, placed = self._last[2], list(given.messages)
        for index, one in self._made_before.items():
            if index >= 0:
                placed[index] = one.message
        for index in (_EXTRA, _TOP):
            if index in self._made_before:
                at = count_system_messages(given.messages) if index == _EXTRA else 0
                placed.insert(at, self._made_before[index].message)
        unchanged = given.unchanged + len(placed) - len(given.messages)
        return PromptRequest(placed, made.restored, made.withdrawn, made.parts, unchanged)

    def extend(self, index: int, message: Message, added: Addition, *, is_same: bool) -> dict[str, Any]:
        """Return a message with texts appended, which must not be changed. Its content is text, parts, or None.

        `is_same`: the message at this index is that of the last request.
        """
        made = self._made_before.get(index) if is_same else None
        if made is None or made.added != added:
            content = get_field(message, "content")
            if content is None or isinstance(content, str):
                text = render_addition((content, *added) if content else added)
                return self._remember(index, {**message, "content": text}, dict(message), added)
            parts = list(get_items(content))
            new = [*parts, {"type": "text", "text": render_addition(added)}]
            return self._remember(index, {**message, "content": new}, {**message, "content": parts}, added)
        self._made[index] = made
        return made.message

    def insert(self, index: int, role: str, added: Addition) -> dict[str, Any]:
        """Return a new message, which must not be changed."""
        made = self._made_before.get(index)
        if made is None or made.added != added or made.message["role"] != role:
            return self._remember(index, {"role": role, "content": render_addition(added)}, None, added)
        self._made[index] = made
        return made.message

    def finish_request(self, extra_at: int) -> int:
        """The index of the first message of a request that is not made as it was before.

        `extra_at` is the index before which the extra message was inserted.
        """
        before, made = self._made_before, self._made
        # Only texts cannot be changed by the caller.
        self._made_before = {index: one for index, one in made.items() if isinstance(one.message["content"], str)}
        self._made, self._made_last = {}, made
        changed = [index for index in made.keys() | before.keys() if made.get(index) is not before.get(index)]
        return min((extra_at if index == _EXTRA else index for index in changed), default=sys.maxsize)

    def _remember(
        self, index: int, message: dict[str, Any], original: Message | None, added: Addition
    ) -> dict[str, Any]:
        made = self._made[index] = _MadeMessage(_message_key(message), message, original, added)
        self._new.append(made)
        return message

    def _index_new(self) -> None:
        """Index the messages of the last request, and drop the oldest of the others."""
        # Only when messages come back: hashing a long text takes long, and a session may send only one request.
        for made in self._new:
            self._drop(made.key)
            self._sent[made.key] = made
            self._characters += _size(made.key)
        self._new.clear()
        entries, characters = self._limits
        if len(self._sent) > entries or self._characters > characters:
            last = {made.key for made in self._made_last.values()}
            for key in [key for key in self._sent if key not in last]:
                if len(self._sent) <= entries and self._characters <= characters:
                    break
                self._drop(key)

    def _drop(self, key: _Key) -> None:
        if self._sent.pop(key, None) is not None:
            self._characters -= _size(key)


def _copy_plain(value: Any) -> Any:
    """A copy of nested data that later changes do not affect."""
    if type(value) is str or value is None:
        return value
    if isinstance(value, Mapping):
        return {key: _copy_plain(one) for key, one in cast("Mapping[Any, Any]", value).items()}
    return [*map(_copy_plain, cast("list[Any]", value))] if isinstance(value, list) else value


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
    not shown any more. `parts` are the texts that were added. The first `unchanged` messages are as they were in the
    last request.
    """

    messages: list[Message]
    restored: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    parts: tuple[PromptPart, ...] = ()
    unchanged: int = field(default=0, compare=False)


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
    given: GivenMessages | None = None,
) -> PromptRequest:
    """Place every text once; return other messages, which must not be changed.

    `messages` are not changed; unchanged messages are the same objects in the result. `layer_one` and `guidance` are
    appended to the first message if it is a system message, else they become one. Texts without a place in the history,
    and `notices`, go into one more system message after the initial ones; with `Placement.SYSTEM` everything goes to
    the end of the first. With the same `memory`, the result may be passed as `messages` again; `given` are
    the messages if it has read them already.
    """
    memory = MessageMemory() if memory is None else memory
    given = given or memory.read(messages, mode)
    asked = (placement, layer_one, guidance, *notices, *shown)
    reused = memory.reuse(given, asked)
    if reused is not None:
        return reused
    shown = list({one.skill: one for one in shown}.values())
    if placement is Placement.SYSTEM:
        plan = _plan_system(shown, notices)
    else:
        plan = _plan_results(given.history, shown, notices)
    first = {PromptLayer.OVERVIEW: layer_one, PromptLayer.GUIDANCE: guidance}
    top = (*(text for text in first.values() if text), *plan.top)
    placed, unchanged = _assemble(given, top, plan, memory)
    parts = (*(PromptPart(layer, "", text) for layer, text in first.items() if text), *plan.parts)
    made = PromptRequest(placed, plan.restored, plan.withdrawn, parts, unchanged)
    memory.keep(asked, given, made, bool(plan.extra))
    return made


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


def _assemble(
    given: GivenMessages, top: Addition, plan: _PlacementPlan, memory: MessageMemory
) -> tuple[list[Message], int]:
    """The messages with all additions, and how many of the first ones are as in the last request."""
    messages, additions = given.messages, dict(plan.additions)
    count = count_system_messages(messages)
    role = get_string(messages[0], "role") if count else "system"
    is_inserted = bool(top) and not (count and can_append_text(messages[0]))
    if top and not is_inserted:
        additions[0] = top
    placed = list(messages)
    for index, added in additions.items():
        placed[index] = memory.extend(index, messages[index], added, is_same=index < given.unchanged)
    if plan.extra:
        placed.insert(count, memory.insert(_EXTRA, role, plan.extra))
    if is_inserted:
        placed.insert(0, memory.insert(_TOP, role, top))
    first = min(memory.finish_request(count), given.unchanged)
    if first == _TOP:
        return placed, 0
    # The extra message is only sure to be at the same place if the message after it is the same.
    return placed, first + is_inserted + (bool(plan.extra) and first > count)


def _join_notices(notices: Sequence[str]) -> Addition:
    return ("\n".join(notices),) if notices else ()


def _split_parts(block: SkillBlock) -> Iterable[PromptPart]:
    if block.body is not None:
        yield PromptPart(PromptLayer.BODY, block.skill, block.body.text)
    for doc in block.docs:
        yield PromptPart(PromptLayer.DOCS, block.skill, doc.text)
