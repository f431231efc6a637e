"""The loaded skills of a session: changes, and the state as a fold over them.

Every change carries the number of its call, and the greater number wins. So changes may be applied in any order and
more than once: parallel calls merge, a replayed log gives the same state, and the fold can be a reducer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

ALL = "*"
"""As the only entry of a selection: every document of the skill."""


class LoadMode(StrEnum):
    """How long a loaded skill stays visible to the model: one user turn, one request, or until it is unloaded."""

    TURN = "turn"
    ONCE = "once"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A skill was loaded. `docs` is the new selection of documents; None keeps the old one."""

    skill: str
    docs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Unloaded:
    """A skill was unloaded with its documents. `evicted`: because others were used more recently."""

    skill: str
    evicted: bool = False


@dataclass(frozen=True, slots=True)
class DocsChosen:
    """Documents were selected: instead of the previous ones, or `added` to them."""

    skill: str
    docs: tuple[str, ...]
    added: bool = False


@dataclass(frozen=True, slots=True)
class Consumed:
    """A skill and its documents were visible in one request and are hidden now (`LoadMode.ONCE`).

    The skill may still be run; its documents are not selected any more.
    """

    skill: str


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """A new user turn began: everything that was loaded before is unloaded."""


Change: TypeAlias = Loaded | Unloaded | DocsChosen | Consumed | TurnBegan


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change with its agent and the number of its call in the session."""

    at: int
    agent: str
    change: Change


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """One skill of one agent: the number of the last change of each kind, 0 for never.

    `chosen` is the last full selection with its number; `added` has documents with the number of the last call that
    added them.
    """

    loaded: int = 0
    unloaded: int = 0
    consumed: int = 0
    touched: int = 0
    chosen: tuple[int, tuple[str, ...]] = (0, ())
    added: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class SkillState:
    """The skills of all agents of one session. `clock` is the greatest number so far."""

    entries: Mapping[tuple[str, str], SkillEntry] = field(default_factory=dict[tuple[str, str], SkillEntry])
    turns: Mapping[str, int] = field(default_factory=dict[str, int])
    clock: int = 0

    def view_for(self, agent: str) -> "AgentView":
        """The skills of one agent. Agents share a session, but not their loaded skills."""
        entries = {skill: entry for (owner, skill), entry in self.entries.items() if owner == agent}
        return AgentView(agent, entries, self.turns.get(agent, 0))


@dataclass(frozen=True, slots=True)
class AgentView:
    """The skills of one agent."""

    agent: str
    entries: Mapping[str, SkillEntry]
    turn: int = 0

    def list_loaded(self) -> tuple[str, ...]:
        """The loaded skills, the least recently used first."""
        shown = [skill for skill in self.entries if self.is_loaded(skill)]
        return tuple(sorted(shown, key=lambda skill: (self.entries[skill].touched, skill)))

    def is_loaded(self, skill: str) -> bool:
        """Whether the skill is loaded and visible to the model."""
        entry = self.entries.get(skill)
        return entry is not None and entry.loaded > max(self._last_removal(entry), entry.consumed)

    def can_run(self, skill: str) -> bool:
        """Whether its commands may be run: it is loaded, or was consumed (`LoadMode.ONCE`)."""
        entry = self.entries.get(skill)
        return entry is not None and entry.loaded > self._last_removal(entry)

    def docs(self, skill: str) -> tuple[str, ...]:
        """The selected documents, sorted; `(ALL,)` for all."""
        entry = self.entries.get(skill)
        if entry is None:
            return ()
        gone = max(self._last_removal(entry), entry.consumed)
        at, chosen = entry.chosen
        found = set(chosen) if at > gone else set[str]()
        found.update(doc for doc, added in entry.added.items() if added > max(at, gone))
        return (ALL,) if ALL in found else tuple(sorted(found))

    def _last_removal(self, entry: SkillEntry) -> int:
        return max(entry.unloaded, self.turn)


def apply_changes(state: SkillState, changes: Iterable[RecordedChange]) -> SkillState:
    """The state after some changes, in any order."""
    entries, turns, clock = dict(state.entries), dict(state.turns), state.clock
    for recorded in changes:
        clock = max(clock, recorded.at)
        if isinstance(recorded.change, TurnBegan):
            turns[recorded.agent] = max(turns.get(recorded.agent, 0), recorded.at)
        else:
            key = (recorded.agent, recorded.change.skill)
            entries[key] = _apply_change(entries.get(key, SkillEntry()), recorded.change, recorded.at)
    return SkillState(entries, turns, clock)


EvictionPolicy: TypeAlias = Callable[[AgentView], Sequence[str]]
"""Returns the names of loaded skills to unload; `keep_most_recent` is one."""


def keep_most_recent(limit: int) -> EvictionPolicy:
    """A policy that keeps the `limit` most recently used skills; 0 or less keeps all."""

    def evict(view: AgentView) -> Sequence[str]:
        return view.list_loaded()[:-limit] if limit > 0 else ()

    return evict


def _apply_change(entry: SkillEntry, change: Loaded | Unloaded | DocsChosen | Consumed, at: int) -> SkillEntry:
    match change:
        case Loaded(docs=docs):
            found = replace(entry, loaded=max(entry.loaded, at), touched=max(entry.touched, at))
            return found if docs is None else _select_docs(found, docs, at)
        case Unloaded():
            return replace(entry, unloaded=max(entry.unloaded, at))
        case Consumed():
            return replace(entry, consumed=max(entry.consumed, at))
        case DocsChosen(docs=docs, added=added):
            found = replace(entry, touched=max(entry.touched, at))
            if not added:
                return _select_docs(found, docs, at)
            return replace(found, added={**entry.added, **{doc: max(entry.added.get(doc, 0), at) for doc in docs}})


def _select_docs(entry: SkillEntry, docs: tuple[str, ...], at: int) -> SkillEntry:
    # Equal numbers come from one call, whose changes can be in any order too.
    return replace(entry, chosen=max(entry.chosen, (at, tuple(sorted(docs)))))
