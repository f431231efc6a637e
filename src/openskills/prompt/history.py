"""Where loaded texts are in a conversation, found by replaying its tool calls.

Messages are in OpenAI's chat format, as mappings or as objects of its client. Nothing here raises or changes a message.
Stored results are short: `loaded: pdf` with lines `evicted: docx`, the JSON of a selection, or `unloaded: pdf`; other
texts, such as errors, are ignored. History only says where a text stands; whether it is loaded is session state.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import dropwhile, takewhile
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

from openskills.prompt.blocks import LOADED_MARK
from openskills.session.state import ALL, LoadMode
from openskills.skillmd.parse import normalize_name

Message: TypeAlias = Mapping[str, Any]

SYSTEM_ROLES = ("system", "developer")
TOOL_ROLES = ("tool", "function")


_type: Callable[[object], type[object]] = type


class HistoryToolCall(NamedTuple):
    """A tool call as the model wrote it. `arguments` is JSON text or an object."""

    id: str
    name: str
    arguments: object


def get_field(value: Any, name: str) -> object:
    """A field of a mapping or object, or None."""
    kind = _type(value)
    # Fast path: almost everything is a plain dict, and this is called hundreds of times per request.
    if kind is dict or issubclass(kind, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def get_string(value: Any, name: str) -> str:
    """A text field; empty for everything else."""
    found = value.get(name) if _type(value) is dict else get_field(value, name)
    return found if isinstance(found, str) else ""


def get_items(value: Any) -> Sequence[object]:
    """The items of a list; empty for everything else."""
    kind = _type(value)
    return value if kind is list or issubclass(kind, list | tuple) else ()


def get_text(message: object) -> str:
    """The text of a message, whether it is a string or in parts."""
    content = get_field(message, "content")
    return content if isinstance(content, str) else "\n".join(get_part_texts(content))


def get_part_texts(content: object) -> tuple[str, ...]:
    """The texts in a list of parts."""
    found = (part if isinstance(part, str) else get_field(part, "text") for part in get_items(content))
    return tuple(text for text in found if isinstance(text, str))


def get_tool_calls(message: object) -> list[HistoryToolCall]:
    """The calls of an assistant's message in order, including a legacy `function_call`."""
    calls, legacy = get_items(get_field(message, "tool_calls")), get_field(message, "function_call")
    if not calls and legacy is None:
        return []
    found = [
        HistoryToolCall(get_string(call, "id"), get_string(function, "name"), get_field(function, "arguments"))
        for call in calls
        if (function := get_field(call, "function")) is not None
    ]
    if legacy is not None:
        found.append(HistoryToolCall("", get_string(legacy, "name"), get_field(legacy, "arguments")))
    return found


def parse_json_object(value: object) -> Mapping[str, object]:
    """An object, parsed from JSON text if necessary; empty for everything else."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value)
    if not isinstance(value, str):
        return {}
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


def can_append_text(message: object) -> bool:
    """Whether text can be appended to a message: it is a mapping whose content is text, parts, or None."""
    if not isinstance(message, Mapping):
        return False
    content = cast("Message", message).get("content")
    return content is None or isinstance(content, (str, list, tuple))


def count_system_messages(messages: Sequence[object]) -> int:
    """How many system messages a conversation begins with."""
    return sum(1 for _ in takewhile(lambda message: get_field(message, "role") in SYSTEM_ROLES, messages))


_LOADED, _UNLOADED, _EVICTED = "loaded:", "unloaded:", "evicted:"
LEFT_OUT, REQUIRES, COMPATIBILITY = "documents not shown:", "requires:", "compatibility:"
"""The beginnings of lines in the result of a load, before lines about evictions."""
_TRUE_WORDS = ("true", "1", "yes", "on", "t", "y")
_DECODER = json.JSONDecoder()
_MAX_CACHED_CHARS = 1_000


class SkillAction(StrEnum):
    """The tools whose results determine where texts are."""

    LOAD = "skill_load"
    SELECT = "skill_select_docs"
    UNLOAD = "skill_unload"


_TOOLS = frozenset(str(verb) for verb in SkillAction)


@dataclass(frozen=True, slots=True)
class SkillCallResult:
    """A successful call. `docs` is the selection after it, `(ALL,)` for every document, None if it is unchanged."""

    action: SkillAction
    skill: str
    docs: tuple[str, ...] | None = None
    evicted: tuple[str, ...] = ()


def parse_result(tool: str, arguments: object, text: str) -> SkillCallResult | None:
    """Parse the stored result of a call; None if it is something else.

    If `tool` is empty (unknown), only `loaded: x` and `unloaded: x` are understood.
    """
    if tool and tool not in _TOOLS:
        return None
    short = len(text) <= _MAX_CACHED_CHARS and (
        arguments is None or (isinstance(arguments, str) and len(arguments) <= _MAX_CACHED_CHARS)
    )
    return _read_cached(tool, arguments, text) if short else _read(tool, arguments, text)


def _read(tool: str, arguments: object, text: str) -> SkillCallResult | None:
    if tool == SkillAction.LOAD or (not tool and text.startswith(_LOADED)):
        return _parse_load(parse_json_object(arguments), text)
    if tool == SkillAction.SELECT:
        return _parse_selection(text)
    if tool == SkillAction.UNLOAD or (not tool and text.startswith(_UNLOADED)):
        return _parse_unload(text)
    return None


# The same few results are parsed for every request of a conversation.
_read_cached = lru_cache(maxsize=1_024)(_read)


def _parse_load(asked: Mapping[str, object], text: str) -> SkillCallResult | None:
    first, _, rest = text.partition("\n")
    skill = first.removeprefix(_LOADED).strip()
    if not first.startswith(_LOADED) or not skill or not _is_about(asked, skill):
        return None
    if rest.lstrip("\n").startswith(LOADED_MARK):
        return None  # a text that we placed came back changed
    return SkillCallResult(SkillAction.LOAD, skill, _get_requested_docs(asked), _parse_evicted(rest))


def _parse_selection(text: str) -> SkillCallResult | None:
    try:
        found, end = _DECODER.raw_decode(text) if text.startswith("{") else (None, 0)
    except (ValueError, RecursionError):
        return None
    value = parse_json_object(found)
    skill = value.get("skill")
    if not isinstance(skill, str) or not skill:
        return None
    docs = (ALL,) if value.get("include_all_docs") is True else _parse_paths(value.get("selected_docs"))
    return None if docs is None else SkillCallResult(SkillAction.SELECT, skill, docs, _parse_evicted(text[end:]))


def _parse_unload(text: str) -> SkillCallResult | None:
    first = text.partition("\n")[0]
    skill = first.removeprefix(_UNLOADED).strip()
    return SkillCallResult(SkillAction.UNLOAD, skill) if first.startswith(_UNLOADED) and skill else None


def _is_about(asked: Mapping[str, object], skill: str) -> bool:
    """Whether the call was about this skill; a truncated result may name another one."""
    name = asked.get("skill")
    return not isinstance(name, str) or normalize_name(name.strip()) == normalize_name(skill)


def _get_requested_docs(asked: Mapping[str, object]) -> tuple[str, ...] | None:
    """The selection of a load, parsed as in `skill_load`."""
    if str(asked.get("include_all_docs")).lower() in _TRUE_WORDS:
        return (ALL,)
    docs = asked.get("docs")
    paths = (docs,) if isinstance(docs, str) else _parse_paths(docs)
    if paths is None:
        return None
    return (ALL,) if ALL in paths else tuple(path.removeprefix("./") for path in paths)


def _parse_paths(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list | tuple):
        return None
    return tuple(path for path in get_items(cast("list[object]", value)) if isinstance(path, str))


def _parse_evicted(rest: str) -> tuple[str, ...]:
    if _EVICTED not in rest:
        return ()
    lines = dropwhile(lambda line: line.startswith((LEFT_OUT, REQUIRES, COMPATIBILITY)), rest.strip("\n").split("\n"))
    lines = takewhile(lambda line: line.startswith(_EVICTED), lines)
    return tuple(line.removeprefix(_EVICTED).strip() for line in lines)


class TextLocations(NamedTuple):
    """The indices of the messages that hold the texts of one skill since it was last unloaded.

    `rest` holds every document that is not in `docs`. `calls` are all loads and selections since then.
    """

    body: int | None = None
    docs: Mapping[str, int] = MappingProxyType({})
    rest: int | None = None
    calls: tuple[int, ...] = ()

    def find_doc(self, path: str) -> int | None:
        return self.docs.get(path, self.rest)

    def selection(self) -> tuple[str, ...]:
        """The selected documents; `(ALL,)` for every one."""
        return tuple(self.docs) if self.rest is None else (ALL,)

    def with_selection(self, docs: Sequence[str], index: int) -> "TextLocations":
        """The locations after a selection at `index`: new documents are there, the others stay where they are."""
        new = index if self.rest is None else self.rest
        if ALL in docs:
            return self._replace(rest=new)
        return self._replace(docs={path: self.docs.get(path, new) for path in docs}, rest=None)


class TranscriptPosition(NamedTuple):
    """How far messages go: the number of user messages, the last one, and the answers to it. System messages are
    ignored.

    A user message at the end starts a turn unless it follows tool calls or their results, as images from tools do.
    """

    users: int = 0
    last_user: object = None
    answers: int = 0
    starts_turn: bool = False

    def is_new_turn_after(self, before: "TranscriptPosition | None") -> bool:
        """Whether the user has answered the model since `before`. A repeated request does not start a turn."""
        if not self.starts_turn:
            return False
        return before is None or self[:2] != before[:2] or before.answers > 0

    def has_answer_after(self, before: "TranscriptPosition | None") -> bool:
        """Whether the model has answered since `before`."""
        return before is not None and (self[:2] != before[:2] or self.answers > before.answers)


@dataclass(frozen=True, slots=True)
class TextHistory:
    """Where texts are according to the messages.

    `locations` has the skills that seem to be loaded. `spare` has those that seem to be unloaded, in case the session's
    state says otherwise: after a user message that began no turn, or calls of one message that ran in another order
    than their results. `outcomes` has every load and selection, by the index of its result. `position` is how far the
    messages go.
    """

    locations: Mapping[str, TextLocations]
    spare: Mapping[str, TextLocations]
    outcomes: Mapping[int, SkillCallResult]
    position: TranscriptPosition = field(default_factory=TranscriptPosition, compare=False)

    def find(self, skill: str) -> TextLocations:
        """The locations of a skill's texts, empty if unknown."""
        return self.locations.get(skill) or self.spare.get(skill) or TextLocations()


class HistoryReplay:
    """A replay of messages in order, which can be continued, and copied to continue it in two ways.

    A result belongs to the nearest call before it with the same id, or else is identified by its `name` or text. A
    skill is unloaded by a call or an eviction; by a user message, unless the mode is `session`; and in the mode `once`
    by an answer of the model.
    """

    def __init__(self, mode: LoadMode) -> None:
        self.mode = mode
        self.count = 0
        self._position = TranscriptPosition()
        self._locations: dict[str, TextLocations] = {}
        self._spare: dict[str, TextLocations] = {}
        self._outcomes: dict[int, SkillCallResult] = {}
        self._calls: dict[str, Sequence[HistoryToolCall]] = {}
        self._answer = -1
        self._is_answered = True

    def continue_with(self, messages: Sequence[Message]) -> TextHistory:
        """Where texts are after more messages; this replay stays where it is."""
        other = HistoryReplay(self.mode)
        other.__dict__ = self.__dict__ | {
            name: getattr(self, name).copy() for name in ("_locations", "_spare", "_outcomes", "_calls")
        }
        other.add_all(messages)
        return other.get_history()

    def get_history(self) -> TextHistory:
        """Where texts are now; it changes if the replay goes on."""
        return TextHistory(self._locations, self._spare, self._outcomes, self._position)

    def add_all(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._add(message)

    def _add(self, message: Message) -> None:
        index, role = self.count, get_field(message, "role")
        self.count += 1
        if role in SYSTEM_ROLES:
            return
        users, last, answers, _ = self._position
        if role == "assistant":
            calls = get_tool_calls(message)
            self._position = TranscriptPosition(users, last, answers + 1)
            self._is_answered = not calls
            self._add_answer(index, calls)
        elif role == "user":
            content = get_field(message, "content")
            self._position = TranscriptPosition(users + 1, content, 0, self._is_answered)
            if self.mode is not LoadMode.SESSION:
                self._move_to_spare()
        else:
            self._position = TranscriptPosition(users, last, answers)
            self._is_answered = False
            if role in TOOL_ROLES:
                self._add_result(index, message)

    def _add_answer(self, index: int, calls: Sequence[HistoryToolCall]) -> None:
        self._answer = index
        if self.mode is LoadMode.ONCE and self._locations:
            # Texts were shown once and are gone.
            self._move_to_spare()
        if calls:
            fresh: dict[str, list[HistoryToolCall]] = {}
            for call in calls:
                fresh.setdefault(call.id or call.name, []).append(call)
            self._calls.update(fresh)

    def _add_result(self, index: int, message: Message) -> None:
        call = self._find_call(message)
        tool, arguments = (call.name, call.arguments) if call else (get_string(message, "name"), None)
        found = parse_result(tool, arguments, get_text(message))
        if found is None or not can_append_text(message):
            return
        if found.action is SkillAction.UNLOAD:
            self._remove(found.skill)
        else:
            self._outcomes[index] = found
            self._keep(index, found)
        for skill in found.evicted:
            self._remove(skill)

    def _find_call(self, message: Message) -> HistoryToolCall | None:
        key = get_string(message, "tool_call_id") or get_string(message, "name")
        calls = self._calls.get(key)
        if not calls:
            return None
        # If calls of one message share an id, their results have the same order.
        if len(calls) > 1:
            self._calls[key] = calls[1:]
        return calls[0]

    def _keep(self, index: int, found: SkillCallResult) -> None:
        held = self._locations.get(found.skill)
        if found.action is SkillAction.LOAD and (held is None or held.body is None):
            # Documents that were selected earlier are placed with the body, so that nothing above changes.
            held = TextLocations(index).with_selection(held.selection() if held else (), index)
        elif held is None:
            # In the mode `once`, a selection shows the skill again; otherwise the load was lost from history.
            held = TextLocations(index if self.mode is LoadMode.ONCE else None)
        if found.docs is not None:
            held = held.with_selection(found.docs, index)
        self._locations[found.skill] = held._replace(calls=(*held.calls, index))

    def _remove(self, skill: str) -> None:
        held = self._locations.pop(skill, TextLocations())
        self._spare.pop(skill, None)
        # A load in the same answer may have run after this, although its result is above.
        for index in held.calls:
            found = self._outcomes[index]
            if index > self._answer and found.action is SkillAction.LOAD:
                again = TextLocations(index, calls=(index,)).with_selection(found.docs or (), index)
                self._spare[skill] = held if held.body == index else again
                break

    def _move_to_spare(self) -> None:
        self._spare.update(self._locations)
        self._locations.clear()
