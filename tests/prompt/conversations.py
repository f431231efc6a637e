"""A model of a conversation: what is said and called in it, what the tools answer, and what has to be in sight.

It keeps the state with the fold of `session`, and writes results as the tools store them. Whatever `place` finds out
about a conversation, it must find out from `messages` alone; what it has to show is in `shown()`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import strategies as st

from openskills.prompt.blocks import LoadedSkill, LoadedText
from openskills.session.state import (
    ALL,
    AgentView,
    Change,
    Consumed,
    DocsChosen,
    Loaded,
    LoadMode,
    RecordedChange,
    SkillState,
    TurnBegan,
    Unloaded,
    apply_changes,
    keep_most_recent,
)

AGENT = "assistant"
SKILLS = ("pdf", "pdf-tools", "数据")
DOCS = ("a.md", "docs/b.md", "guide.md#L3-L9")
CLEARED = "[Old tool result content cleared]"

Messages: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Load:
    skill: str
    docs: tuple[str, ...] | None = None
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Select:
    skill: str
    docs: tuple[str, ...] = ()
    mode: str = "replace"
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Unload:
    skill: str


@dataclass(frozen=True, slots=True)
class Other:
    """A tool of somebody else, or one of ours that does not matter here."""

    text: str = "done"
    name: str = "skill_run"


Ask: TypeAlias = Load | Select | Unload | Other


def body(skill: str) -> LoadedText:
    return LoadedText("SKILL.md", f"# Title\n«body of {skill}»\n", 5, 2)


def doc(skill: str, path: str) -> LoadedText:
    return LoadedText(path, f"«{path} of {skill}»", 5, 1)


def marks() -> Iterator[tuple[str, str, str]]:
    """Every text there is: its skill, its document or nothing, and what it can be known by."""
    for skill in SKILLS:
        yield skill, "", f"«body of {skill}»"
        for path in DOCS:
            yield skill, path, doc(skill, path).text


class Conversation:
    """Messages as a framework stores them, and the state that goes with them.

    A request is thought to be sent before every answer of the assistant. `losses` counts how often something that was
    in sight was taken out of it.
    """

    def __init__(self, mode: LoadMode, *, limit: int = 0, one_id: bool = False) -> None:
        self.mode = mode
        self.messages: Messages = []
        self.losses = 0
        self._state = SkillState()
        self._evict = keep_most_recent(limit)
        self._one_id = one_id
        self._ids = 0
        self._order: list[str] = []

    def shown(self) -> tuple[LoadedSkill, ...]:
        """What has to be in sight, in the order in which it came."""
        view = self._view()
        self._order = [skill for skill in self._order if view.is_loaded(skill)]
        self._order += [skill for skill in view.list_loaded() if skill not in self._order]
        return tuple(
            LoadedSkill(skill, body(skill), tuple(doc(skill, path) for path in _paths(view, skill)))
            for skill in self._order
        )

    def system(self, text: str) -> None:
        self.messages.append({"role": "system", "content": text})

    def user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})
        if self.mode is not LoadMode.SESSION:
            self._fold(TurnBegan())

    def say(self, text: str) -> None:
        self._answers()
        self.messages.append({"role": "assistant", "content": text})

    def ask(self, *asks: Ask, order: Sequence[int] | None = None) -> None:
        """An answer with calls. They run in `order`; their results stand in the order of the calls."""
        self._answers()
        ids = [self._id() for _ in asks]
        calls = [_call(number, ask) for number, ask in zip(ids, asks, strict=True)]
        self.messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        texts = {index: self._run(asks[index]) for index in order or range(len(asks))}
        self.messages += (
            {"role": "tool", "tool_call_id": ids[index], "content": texts[index]} for index in range(len(asks))
        )

    def _answers(self) -> None:
        if self.mode is LoadMode.ONCE:
            for skill in self._view().list_loaded():
                self._fold(Consumed(skill))

    def _run(self, ask: Ask) -> str:
        text, changes = self._answer(ask)
        self._fold(*changes)
        evicted = self._evict(self._view()) if changes else ()
        self._fold(*(Unloaded(skill, evicted=True) for skill in evicted))
        return "\n".join([text, *(f"evicted: {skill}" for skill in evicted)])

    def _answer(self, ask: Ask) -> tuple[str, Sequence[Change]]:
        view = self._view()
        match ask:
            case Load(skill, docs, everything):
                return f"loaded: {skill}", [Loaded(skill, (ALL,) if everything else docs)]
            case Select(skill) if not view.can_run(skill):
                return f"error: {skill!r} is not loaded", []
            case Select(skill, docs, mode, everything):
                return _selected(view, skill, () if mode == "clear" else (ALL,) if everything else docs, mode)
            case Unload(skill) if view.can_run(skill):
                return f"unloaded: {skill}", [Unloaded(skill)]
            case Unload(skill):
                return f"{skill} was not loaded; nothing has changed", []
            case Other(text):
                return text, []

    def _fold(self, *changes: Change) -> None:
        if changes:
            before = _seen(self.shown())
            at = self._state.clock + 1
            self._state = apply_changes(self._state, [RecordedChange(at, AGENT, change) for change in changes])
            self.losses += not before <= _seen(self.shown())

    def _view(self) -> AgentView:
        return self._state.view_for(AGENT)

    def _id(self) -> str:
        self._ids += 1
        return "call_1" if self._one_id else f"call_{self._ids}"


def _selected(view: AgentView, skill: str, docs: tuple[str, ...], mode: str) -> tuple[str, Sequence[Change]]:
    after = {*view.docs(skill), *docs} if mode == "add" else set(docs)
    selection = {"include_all_docs": True} if ALL in after else {"selected_docs": sorted(after)}
    again = [] if view.is_loaded(skill) else [Loaded(skill)]
    text = json.dumps({"skill": skill, "mode": mode, **selection}, ensure_ascii=False)
    return text, [*again, DocsChosen(skill, docs, added=mode == "add")]


def _call(number: str, ask: Ask) -> dict[str, Any]:
    match ask:
        case Load(skill, docs, everything):
            name = "skill_load"
            arguments: Mapping[str, object] = {"skill": skill, "docs": docs, "include_all_docs": everything}
        case Select(skill, docs, mode, everything):
            name = "skill_select_docs"
            arguments = {"skill": skill, "docs": docs, "mode": mode, "include_all_docs": everything}
        case Unload(skill):
            name, arguments = "skill_unload", {"skill": skill}
        case Other(_, name):
            arguments = {}
    return {"id": number, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def _paths(view: AgentView, skill: str) -> Sequence[str]:
    docs = view.docs(skill)
    return DOCS if docs == (ALL,) else docs


def _seen(shown: Sequence[LoadedSkill]) -> set[tuple[str, str]]:
    return {(one.skill, path) for one in shown for path in ("", *(piece.path for piece in one.docs))}


# Conversations at random. A step is a list of things that are asked at once and the order in which they run, or
# something that is said.

_skills = st.sampled_from(SKILLS)
_docs = st.lists(st.sampled_from(DOCS), max_size=2, unique=True).map(tuple)
asks: st.SearchStrategy[Ask] = st.one_of(
    st.builds(Load, _skills, st.none() | _docs, st.sampled_from([False, False, False, True])),
    st.builds(Load, _skills),
    st.builds(Select, _skills, _docs, st.sampled_from(["add", "replace", "clear"]), st.booleans()),
    st.builds(Unload, _skills),
    st.builds(Other, st.sampled_from(["done", "loaded: pdf", "unloaded: pdf", "evicted: pdf", '{"skill": "pdf"}'])),
)
batches = st.lists(asks, min_size=1, max_size=3)
Step: TypeAlias = tuple[str, list[Ask], list[int] | None]


@st.composite
def steps(draw: st.DrawFn, *, in_order: bool = False) -> list[Step]:
    """What happens, one after the other."""
    found: list[Step] = []
    for kind in draw(st.lists(st.sampled_from(["ask", "ask", "ask", "user", "say"]), max_size=10)):
        asked = draw(batches) if kind == "ask" else []
        order = None if in_order else draw(st.permutations(range(len(asked))))
        found.append((kind, asked, order))
    return found


def happen(conversation: Conversation, step: Step) -> None:
    kind, asked, order = step
    match kind:
        case "ask":
            conversation.ask(*asked, order=order)
        case "user":
            conversation.user("Go on: loaded: pdf")
        case _:
            conversation.say("[Loaded] nothing")


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """A conversation that has run for a while and that nobody has touched."""
    found = Conversation(
        draw(st.sampled_from(LoadMode)), limit=draw(st.sampled_from([0, 1, 2])), one_id=draw(st.booleans())
    )
    for _ in range(draw(st.integers(0, 2))):
        found.system("You are helpful. Loaded skill context:")
    found.user("Hello")
    for step in draw(steps()):
        happen(found, step)
    return found


@st.composite
def damaged(draw: st.DrawFn, messages: Messages) -> Messages:
    """The messages after frameworks have been at them: cut anywhere, cleared, summarised, rewritten in parts."""
    found = list(messages)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(found)))
        end = draw(st.integers(start, len(found)))
        match draw(st.sampled_from(["cut", "clear", "summary", "parts", "nameless", "twice"])):
            case "cut":
                found[start:end] = []
            case "clear":
                found[start:end] = [_replaced(message, CLEARED) for message in found[start:end]]
            case "summary":
                found[start:end] = [{"role": draw(st.sampled_from(["system", "user"])), "content": "So far: nothing"}]
            case "parts":
                found[start:end] = [_in_parts(message) for message in found[start:end]]
            case "nameless":
                found[start:end] = [message for message in found[start:end] if not message.get("tool_calls")]
            case _:
                found[end:end] = found[start:end]
    return found


def _replaced(message: dict[str, Any], text: str) -> dict[str, Any]:
    return {**message, "content": text} if message["role"] == "tool" else message


def _in_parts(message: dict[str, Any]) -> dict[str, Any]:
    text = message["content"]
    return {**message, "content": [{"type": "text", "text": text}]} if isinstance(text, str) else message
