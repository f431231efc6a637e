"""What is loaded in a thread, as a channel of its graph. The reducer is the fold that sessions of our own use.

Everything in the channel is plain: numbers, texts, lists, maps. A checkpointer keeps it whatever serialiser it has, and
somebody who reads a checkpoint without OpenSkill can see what is in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from openskills.session.changes import Change, Consumed, DocsChosen, Loaded, Recorded, TurnBegan, Unloaded
from openskills.session.state import SkillEntry, SkillState, apply

PlainState: TypeAlias = dict[str, Any]
"""`clock`, `turns` by agent, and `skills` by agent and name."""

PlainChange: TypeAlias = list[Any]
"""The number of a change, its agent, its kind, and what the kind needs."""

_LOADED, _UNLOADED, _CONSUMED, _CHOSEN, _TURN = "loaded", "unloaded", "consumed", "docs", "turn"


def fold(current: PlainState | None, update: Iterable[PlainChange] | None) -> PlainState:
    """The reducer: a channel after the changes of one call or one hook. They may come in any order."""
    return plain_state(apply(state_of(current), [_change(one) for one in update or ()]))


def state_of(channel: Mapping[str, Any] | None) -> SkillState:
    """What a channel says; nothing is loaded in one that is not there yet."""
    if not channel:
        return SkillState()
    entries = {
        (agent, skill): _entry(numbers)
        for agent, skills in channel["skills"].items()
        for skill, numbers in skills.items()
    }
    return SkillState(entries, dict(channel["turns"]), channel["clock"])


def plain_state(state: SkillState) -> PlainState:
    """A state for a channel. What has ended with a turn is left out: nothing that comes later can refer to it."""
    skills: dict[str, dict[str, Any]] = {}
    for (agent, skill), entry in state.entries.items():
        if _latest(entry) > state.turns.get(agent, 0):
            skills.setdefault(agent, {})[skill] = _numbers(entry)
    return {"clock": state.clock, "turns": dict(state.turns), "skills": skills}


def plain_changes(changes: Iterable[Recorded]) -> list[PlainChange]:
    """Changes as an update of the channel."""
    return [[recorded.at, recorded.agent, *_words(recorded.change)] for recorded in changes]


def _entry(numbers: Sequence[Any]) -> SkillEntry:
    loaded, unloaded, consumed, touched, at, chosen, added = numbers
    return SkillEntry(loaded, unloaded, consumed, touched, (at, tuple(chosen)), dict(added))


def _numbers(entry: SkillEntry) -> list[Any]:
    at, chosen = entry.chosen
    return [entry.loaded, entry.unloaded, entry.consumed, entry.touched, at, list(chosen), dict(entry.added)]


def _latest(entry: SkillEntry) -> int:
    kinds = (entry.loaded, entry.unloaded, entry.consumed, entry.touched, entry.chosen[0])
    return max(*kinds, *entry.added.values()) if entry.added else max(kinds)


def _words(change: Change) -> list[Any]:
    match change:
        case Loaded(skill, docs):
            return [_LOADED, skill, None if docs is None else list(docs)]
        case Unloaded(skill, evicted):
            return [_UNLOADED, skill, evicted]
        case Consumed(skill):
            return [_CONSUMED, skill]
        case DocsChosen(skill, docs, added):
            return [_CHOSEN, skill, list(docs), added]
        case TurnBegan():
            return [_TURN]


def _change(plain: PlainChange) -> Recorded:
    at, agent, kind, *rest = plain
    return Recorded(at, agent, _MEANING[kind](*rest))


def _loaded(skill: str, docs: Sequence[str] | None) -> Change:
    return Loaded(skill, None if docs is None else tuple(docs))


def _chosen(skill: str, docs: Sequence[str], added: bool) -> Change:
    return DocsChosen(skill, tuple(docs), added)


_MEANING: Mapping[str, Any] = cast(
    "Mapping[str, Any]",
    {_LOADED: _loaded, _UNLOADED: Unloaded, _CONSUMED: Consumed, _CHOSEN: _chosen, _TURN: TurnBegan},
)
