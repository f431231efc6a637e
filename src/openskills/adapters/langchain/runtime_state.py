"""State channel.

What is loaded in a thread, as a channel of its graph. The reducer is the fold that sessions of our own use.

Everything in the channel is plain: numbers, texts, lists, maps. A checkpointer keeps it whatever serialiser it has, and
somebody who reads a checkpoint without OpenSkill can see what is in it.

The state that `SkillRuntimeMiddleware` adds to a thread.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NotRequired, TypeAlias, cast

from langchain.agents.middleware.types import AgentState, PrivateStateAttr

from openskills.session.state import (
    Change,
    Consumed,
    DocsChosen,
    Loaded,
    RecordedChange,
    SkillEntry,
    SkillState,
    TurnBegan,
    Unloaded,
    apply_changes,
)

PlainState: TypeAlias = dict[str, Any]
"""`clock`, `turns` by agent, and `skills` by agent and name."""

PlainChange: TypeAlias = list[Any]
"""The number of a change, its agent, its kind, and what the kind needs."""

_LOADED, _UNLOADED, _CONSUMED, _CHOSEN, _TURN = "loaded", "unloaded", "consumed", "docs", "turn"


def fold(current: PlainState | None, update: Iterable[PlainChange] | None) -> PlainState:
    """The reducer: a channel after the changes of one call or one hook. They may come in any order."""
    return state_to_channel(
        apply_changes(state_from_channel(current), [_change_from_list(one) for one in update or ()])
    )


def state_from_channel(channel: Mapping[str, Any] | None) -> SkillState:
    """What a channel says; nothing is loaded in one that is not there yet."""
    if not channel:
        return SkillState()
    entries = {
        (agent, skill): _entry_from_numbers(numbers)
        for agent, skills in channel["skills"].items()
        for skill, numbers in skills.items()
    }
    return SkillState(entries, dict(channel["turns"]), channel["clock"])


def state_to_channel(state: SkillState) -> PlainState:
    """A state for a channel. What has ended with a turn is left out: nothing that comes later can refer to it."""
    skills: dict[str, dict[str, Any]] = {}
    for (agent, skill), entry in state.entries.items():
        if _find_latest(entry) > state.turns.get(agent, 0):
            skills.setdefault(agent, {})[skill] = _entry_to_numbers(entry)
    return {"clock": state.clock, "turns": dict(state.turns), "skills": skills}


def changes_to_channel(changes: Iterable[RecordedChange]) -> list[PlainChange]:
    """Changes as an update of the channel."""
    return [[recorded.at, recorded.agent, *_change_to_list(recorded.change)] for recorded in changes]


def _entry_from_numbers(numbers: Sequence[Any]) -> SkillEntry:
    loaded, unloaded, consumed, touched, at, chosen, added = numbers
    return SkillEntry(loaded, unloaded, consumed, touched, (at, tuple(chosen)), dict(added))


def _entry_to_numbers(entry: SkillEntry) -> list[Any]:
    at, chosen = entry.chosen
    return [entry.loaded, entry.unloaded, entry.consumed, entry.touched, at, list(chosen), dict(entry.added)]


def _find_latest(entry: SkillEntry) -> int:
    kinds = (entry.loaded, entry.unloaded, entry.consumed, entry.touched, entry.chosen[0])
    return max(*kinds, *entry.added.values()) if entry.added else max(kinds)


def _change_to_list(change: Change) -> list[Any]:
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


def _change_from_list(plain: PlainChange) -> RecordedChange:
    at, agent, kind, *rest = plain
    return RecordedChange(at, agent, _PARSERS[kind](*rest))


def _parse_loaded(skill: str, docs: Sequence[str] | None) -> Change:
    return Loaded(skill, None if docs is None else tuple(docs))


def _parse_docs(skill: str, docs: Sequence[str], added: bool) -> Change:
    return DocsChosen(skill, tuple(docs), added)


_PARSERS: Mapping[str, Any] = cast(
    "Mapping[str, Any]",
    {_LOADED: _parse_loaded, _UNLOADED: Unloaded, _CONSUMED: Consumed, _CHOSEN: _parse_docs, _TURN: TurnBegan},
)


SKILLS = "openskills_state"
SESSION = "openskills_session"


class SkillRuntimeState(AgentState[Any]):
    """What a thread remembers. Nothing of it comes in with a request, or goes out to a parent graph.

    A reducer must be the last annotation; LangGraph looks for it there and nowhere else.
    """

    openskills_state: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, fold]]
    """What is loaded. Updates are changes; `session_channel` says how both are written."""

    openskills_session: NotRequired[Annotated[str, PrivateStateAttr]]
    """The name of the session, in a run that belongs to no thread."""


def loaded_skills(values: Mapping[str, Any], agent: str = "assistant") -> tuple[str, ...]:
    """The skills that an agent has loaded, from `graph.get_state(config).values`; the one touched last at the end."""
    return state_from_channel(values.get(SKILLS)).view_for(agent).list_loaded()
