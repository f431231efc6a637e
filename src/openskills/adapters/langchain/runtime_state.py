"""The state that `SkillRuntimeMiddleware` adds to a thread: the loaded skills, as a channel of the graph.

The channel has only plain values (numbers, strings, lists, dicts), so that any checkpoint serializer can store them and
checkpoints can be read without OpenSkill. The reducer is the same fold that sessions use.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
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
"""The number of a change, its agent, its kind, and the arguments of the kind."""

_KINDS: Mapping[str, Any] = {
    "loaded": Loaded,
    "unloaded": Unloaded,
    "consumed": Consumed,
    "docs": DocsChosen,
    "turn": TurnBegan,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def fold(current: PlainState | None, update: Iterable[PlainChange] | None) -> PlainState:
    """The reducer: apply the changes of one call or hook, in any order."""
    return state_to_channel(
        apply_changes(state_from_channel(current), [_change_from_list(one) for one in update or ()])
    )


def state_from_channel(channel: Mapping[str, Any] | None) -> SkillState:
    """The state in a channel; an empty state for a missing one."""
    if not channel:
        return SkillState()
    entries = {
        (agent, skill): _entry_from_numbers(numbers)
        for agent, skills in channel["skills"].items()
        for skill, numbers in skills.items()
    }
    return SkillState(entries, dict(channel["turns"]), channel["clock"])


def state_to_channel(state: SkillState) -> PlainState:
    """A state as a channel, without entries that ended with a turn."""
    skills: dict[str, dict[str, Any]] = {}
    for (agent, skill), entry in state.entries.items():
        if _find_latest(entry) > state.turns.get(agent, 0):
            skills.setdefault(agent, {})[skill] = _entry_to_numbers(entry)
    return {"clock": state.clock, "turns": dict(state.turns), "skills": skills}


def changes_to_channel(changes: Iterable[RecordedChange]) -> list[PlainChange]:
    """Changes as an update for the channel."""
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
    return [_NAMES[type(change)], *(_to_plain(getattr(change, one.name)) for one in fields(change))]


def _to_plain(value: Any) -> Any:
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


def _change_from_list(plain: PlainChange) -> RecordedChange:
    at, agent, kind, *values = plain
    return RecordedChange(at, agent, _KINDS[kind](*(_freeze(value) for value in values)))


def _freeze(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


SKILLS = "openskills_state"
SESSION = "openskills_session"


class SkillRuntimeState(AgentState[Any]):
    """Private state of a thread. LangGraph requires a reducer to be the last annotation."""

    openskills_state: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, fold]]
    """The loaded skills, as `PlainState`; updates are lists of `PlainChange`."""

    openskills_session: NotRequired[Annotated[str, PrivateStateAttr]]
    """The name of the session of a run without a thread."""


def loaded_skills(values: Mapping[str, Any], agent: str = "assistant") -> tuple[str, ...]:
    """The loaded skills of an agent, from `graph.get_state(config).values`; the most recently used one is last."""
    return state_from_channel(values.get(SKILLS)).view_for(agent).list_loaded()
