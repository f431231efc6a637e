"""SkillState, changes, apply().

What can happen to the skills of a conversation. Plain values; `state.py` says what they mean.

What is loaded, as a fold of changes. Pure.

Every fact carries the number of the call it came from, and the greater number wins. So changes may arrive in any order
and more than once: two calls of one message merge, a replayed log gives the same state, and the fold can be the reducer
of somebody else's state.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

ALL = "*"
"""As the only entry of a selection: every document of the skill."""


class LoadMode(StrEnum):
    """How long a loaded skill stays in the model's sight: a turn of the user, one request, or until it is unloaded."""

    TURN = "turn"
    ONCE = "once"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A skill is loaded. `docs` of None leaves the selection of documents as it is; else it is the new one."""

    skill: str
    docs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Unloaded:
    """A skill is gone from the model's sight, with its documents. `evicted`: because others were used more recently."""

    skill: str
    evicted: bool = False


@dataclass(frozen=True, slots=True)
class DocsChosen:
    """Documents are selected: instead of those that were, or `added` to them."""

    skill: str
    docs: tuple[str, ...]
    added: bool = False


@dataclass(frozen=True, slots=True)
class Consumed:
    """A skill was shown in one request and is not shown again (`LoadMode.ONCE`); it may still be run."""

    skill: str


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """The user has spoken again: everything that was loaded before is gone."""


Change: TypeAlias = Loaded | Unloaded | DocsChosen | Consumed | TurnBegan


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change, whose it is, and when: `at` is a number that a conversation gives to each call, in their order.

    With it the order in which changes arrive does not matter.
    """

    at: int
    agent: str
    change: Change


EvictionPolicy: TypeAlias = Callable[["AgentView"], Sequence[str]]
"""Names of loaded skills that have to go: a policy in the place of `keep_most_recent`."""


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """One skill of one agent: the number of the last change of each kind, 0 for never.

    `chosen` is the last selection that replaced all others, and its number; `added` has documents with the number of
    the last call that added them.
    """

    loaded: int = 0
    unloaded: int = 0
    consumed: int = 0
    touched: int = 0
    chosen: tuple[int, tuple[str, ...]] = (0, ())
    added: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class SkillState:
    """The skills of all agents of one conversation. `clock` is the greatest number that was seen."""

    entries: Mapping[tuple[str, str], SkillEntry] = field(default_factory=dict[tuple[str, str], SkillEntry])
    turns: Mapping[str, int] = field(default_factory=dict[str, int])
    clock: int = 0

    def view_for(self, agent: str) -> "AgentView":
        """What one agent has loaded. Agents share a conversation, not what they loaded."""
        entries = {skill: entry for (owner, skill), entry in self.entries.items() if owner == agent}
        return AgentView(agent, entries, self.turns.get(agent, 0))


@dataclass(frozen=True, slots=True)
class AgentView:
    """What one agent has loaded."""

    agent: str
    entries: Mapping[str, SkillEntry]
    turn: int = 0

    def list_loaded(self) -> tuple[str, ...]:
        """The skills that the model is to see, the one that was touched longest ago first."""
        shown = [skill for skill in self.entries if self.is_loaded(skill)]
        return tuple(sorted(shown, key=lambda skill: (self.entries[skill].touched, skill)))

    def is_loaded(self, skill: str) -> bool:
        """Whether the model is to see it."""
        entry = self.entries.get(skill)
        return entry is not None and entry.loaded > max(self._last_removal(entry), entry.consumed)

    def can_run(self, skill: str) -> bool:
        """Whether its commands may be run: it was loaded, and nothing but being seen once has ended that."""
        entry = self.entries.get(skill)
        return entry is not None and entry.loaded > self._last_removal(entry)

    def docs(self, skill: str) -> tuple[str, ...]:
        """The documents that are selected, sorted; `(ALL,)` for every one."""
        entry = self.entries.get(skill)
        if entry is None:
            return ()
        gone = self._last_removal(entry)
        at, chosen = entry.chosen
        found = set(chosen) if at > gone else set[str]()
        found.update(doc for doc, added in entry.added.items() if added > max(at, gone))
        return (ALL,) if ALL in found else tuple(sorted(found))

    def _last_removal(self, entry: SkillEntry) -> int:
        return max(entry.unloaded, self.turn)


def apply_changes(state: SkillState, changes: Iterable[RecordedChange]) -> SkillState:
    """The state after some changes, in whatever order they come."""
    entries, turns, clock = dict(state.entries), dict(state.turns), state.clock
    for recorded in changes:
        clock = max(clock, recorded.at)
        if isinstance(recorded.change, TurnBegan):
            turns[recorded.agent] = max(turns.get(recorded.agent, 0), recorded.at)
        else:
            key = (recorded.agent, recorded.change.skill)
            entries[key] = _apply_change(entries.get(key, SkillEntry()), recorded.change, recorded.at)
    return SkillState(entries, turns, clock)


def keep_most_recent(limit: int) -> EvictionPolicy:
    """A policy that keeps the skills that were touched last, at most `limit` of them; 0 or less keeps all."""

    def evict(view: AgentView) -> Sequence[str]:
        loaded = view.list_loaded()
        return loaded[:-limit] if limit > 0 else ()

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
    # Equal numbers come from one call; the order of its changes must not matter either.
    return replace(entry, chosen=max(entry.chosen, (at, tuple(sorted(docs)))))
