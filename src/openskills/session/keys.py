"""Convert `SkillState` to and from the state keys of a session, and migrate legacy keys.

    temp:skill:loaded_by_agent:<agent>/<skill>    1
    temp:skill:docs_by_agent:<agent>/<skill>      * for every document, or a JSON array of paths
    temp:skill:loaded_order_by_agent:<agent>      a JSON array of the loaded skills, the latest last
    temp:skill:runnable_by_agent:<agent>/<skill>  1: hidden from the model, but its commands may be run

Other programs read and write the first three, too; empty values, broken JSON and an incomplete order are tolerated.
Legacy keys have no agent: temp:skill:loaded:<skill>, temp:skill:docs:<skill>, temp:skill:loaded_order:
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast
from urllib.parse import quote, unquote

from openskills.session.events import StateDelta, apply_delta
from openskills.session.state import ALL, AgentView, SkillEntry, SkillState

YES = "1"

_LOADED = "temp:skill:loaded_by_agent:"
_DOCS = "temp:skill:docs_by_agent:"
_ORDER = "temp:skill:loaded_order_by_agent:"
_RUNNABLE = "temp:skill:runnable_by_agent:"


def loaded_prefix(agent: str) -> str:
    return f"{_LOADED}{_escape_agent(agent)}/"


def loaded_key(agent: str, skill: str) -> str:
    return f"{loaded_prefix(agent)}{skill}"


def docs_key(agent: str, skill: str) -> str:
    return f"{_DOCS}{_escape_agent(agent)}/{skill}"


def order_key(agent: str) -> str:
    """The key of the order in which an agent's skills were used."""
    return f"{_ORDER}{_escape_agent(agent)}"


def runnable_key(agent: str, skill: str) -> str:
    """The key of a skill that is not loaded but may be run."""
    return f"{_RUNNABLE}{_escape_agent(agent)}/{skill}"


def state_to_keys(state: SkillState) -> dict[str, str]:
    """The state as keys and texts; only loaded, selected and runnable skills have keys."""
    return _keys_for_agents(state, None)


def build_delta(before: SkillState, after: SkillState, *, agents: Collection[str] | None = None) -> StateDelta:
    """The delta that turns the keys of one state into those of another; of `agents` only, if given."""
    old, new = _keys_for_agents(before, agents), _keys_for_agents(after, agents)
    changed: dict[str, str | None] = {key: text for key, text in new.items() if old.get(key) != text}
    return changed | dict.fromkeys(key for key in old if key not in new)


def state_from_keys(keys: Mapping[str, object], clock: int = 0) -> SkillState:
    """The state that keys and texts describe; other keys are ignored.

    Entries are numbered in order of use; loaded skills that the order does not name come first. `clock` is the
    greatest number of the session so far; a change with a greater number is newer than everything here.
    """
    held: dict[str, _AgentKeys] = {}
    for key, text in keys.items():
        _read_key(held, key, text)
    entries = {(agent, skill): entry for agent, one in held.items() for skill, entry in one.entries()}
    return SkillState(entries, {}, max([clock, *(entry.touched for entry in entries.values())]))


def format_docs(docs: Sequence[str]) -> str | None:
    """The text of a selection's key; None for an empty selection."""
    if not docs:
        return None
    return ALL if ALL in docs else format_array(sorted(set(docs)))


def parse_docs(text: object) -> tuple[str, ...]:
    """The selection of a key's text; empty for an invalid text."""
    found = (ALL,) if text == ALL else parse_array(text)
    return (ALL,) if ALL in found else tuple(sorted(set(found)))


def format_array(names: Sequence[str]) -> str:
    return json.dumps(names, separators=(",", ":"))


def parse_array(text: object) -> tuple[str, ...]:
    """The names in a JSON array of strings; none for anything else."""
    if not isinstance(text, str):
        return ()
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    items = cast("list[object]", found) if isinstance(found, list) else []
    names = tuple(item for item in items if isinstance(item, str))
    return names if len(names) == len(items) else ()


@dataclass(slots=True)
class _AgentKeys:
    loaded: set[str] = field(default_factory=set[str])
    runnable: set[str] = field(default_factory=set[str])
    docs: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    order: tuple[str, ...] = ()

    def entries(self) -> Iterator[tuple[str, SkillEntry]]:
        others = (self.runnable | self.docs.keys()) - self.loaded
        ordered = [skill for skill in self.order if skill in self.loaded]
        touched = [*sorted(others), *sorted(self.loaded.difference(ordered)), *ordered]
        for number, skill in enumerate(touched, 2 if others else 1):
            is_loaded = skill in self.loaded
            yield (
                skill,
                SkillEntry(
                    # Documents that are selected now were selected after the skill was consumed.
                    loaded=number if is_loaded else number - 1 if skill in self.runnable else 0,
                    consumed=0 if is_loaded else number - 1,
                    touched=number,
                    chosen=(number, self.docs[skill]) if skill in self.docs else (0, ()),
                ),
            )


def _read_key(held: dict[str, _AgentKeys], key: str, text: object) -> None:
    if key.startswith(_ORDER):
        # If a skill is named twice, the later position counts.
        latest = dict.fromkeys(reversed(parse_array(text)))
        held.setdefault(_unescape_agent(key.removeprefix(_ORDER)), _AgentKeys()).order = tuple(reversed(latest))
        return
    prefix = next((one for one in (_LOADED, _DOCS, _RUNNABLE) if key.startswith(one)), "")
    escaped, _, skill = key.removeprefix(prefix).partition("/")
    if not prefix or not skill:
        return
    one = held.setdefault(_unescape_agent(escaped), _AgentKeys())
    if prefix == _DOCS:
        one.docs |= {skill: docs} if (docs := parse_docs(text)) else {}
    elif text == YES:
        (one.loaded if prefix == _LOADED else one.runnable).add(skill)


def _keys_for_agents(state: SkillState, agents: Collection[str] | None) -> dict[str, str]:
    entries: dict[str, dict[str, SkillEntry]] = {}
    for (agent, skill), entry in state.entries.items():
        if agents is None or agent in agents:
            entries.setdefault(agent, {})[skill] = entry
    views = [AgentView(agent, entries[agent], state.turns.get(agent, 0)) for agent in sorted(entries)]
    return {key: text for view in views for key, text in _keys_for_view(view)}


def _keys_for_view(view: AgentView) -> Iterator[tuple[str, str]]:
    for skill in sorted(view.entries):
        if view.is_loaded(skill):
            yield loaded_key(view.agent, skill), YES
        elif view.can_run(skill):
            yield runnable_key(view.agent, skill), YES
        if selected := format_docs(view.docs(skill)):
            yield docs_key(view.agent, skill), selected
    if loaded := view.list_loaded():
        yield order_key(view.agent), format_array(loaded)


def _escape_agent(agent: str) -> str:
    # Names with "%" are escaped, too: otherwise "a/b" and "a%2Fb" would be the same agent.
    if "/" not in agent and "%" not in agent:
        return agent
    return quote(agent, safe="$&+:=@", errors="surrogatepass")


def _unescape_agent(escaped: str) -> str:
    """The inverse of `_escape_agent`; a name that it would not have produced is unchanged."""
    try:
        agent = unquote(escaped, errors="surrogatepass")
    except UnicodeDecodeError:
        return escaped
    return agent if _escape_agent(agent) == escaped else escaped


OwnerLookup: TypeAlias = Callable[[str], str | None]
"""The author of the latest `skill_load` or `skill_select_docs` of a skill, if any."""

_LEGACY_LOADED = "temp:skill:loaded:"
_LEGACY_DOCS = "temp:skill:docs:"
_LEGACY_ORDER = "temp:skill:loaded_order:"


def migrate_keys(keys: Mapping[str, str], agent: str, owner_of: OwnerLookup) -> StateDelta:
    """The delta that replaces legacy keys; empty when there are none.

    A value goes to the owner of its skill, or else to `agent`; with neither it stays. An existing value of the owner's
    own key takes precedence.
    """
    changed: dict[str, str | None] = {}
    for key, text in keys.items():
        prefix = next((one for one in (_LEGACY_LOADED, _LEGACY_DOCS) if key.startswith(one)), key)
        skill = key.removeprefix(prefix)
        owner = (owner_of(skill) or agent) if skill and text else ""
        if owner:
            if prefix == _LEGACY_LOADED:
                scoped, value = loaded_key(owner, skill), YES if text == YES else None
            else:
                scoped, value = docs_key(owner, skill), format_docs(parse_docs(text))
            changed[key] = None
            changed |= {scoped: value} if value and not keys.get(scoped) else {}
    return {**changed, **_migrate_order(keys, changed, agent, owner_of)}


def _migrate_order(keys: Mapping[str, str], changed: StateDelta, agent: str, owner_of: OwnerLookup) -> StateDelta:
    text = keys.get(_LEGACY_ORDER)
    owners = {skill: owner_of(skill) or agent for skill in parse_array(text)}
    if not text or not all(owners.values()):
        return {}
    after = apply_delta(keys, changed)
    found: dict[str, str | None] = {_LEGACY_ORDER: None}
    for owner in sorted(set(owners.values())):
        its = [skill for skill in owners if owners[skill] == owner and after.get(loaded_key(owner, skill)) == YES]
        # Skills in the owner's own order were used later than those of the legacy order.
        known = parse_array(keys.get(order_key(owner)))
        if older := [skill for skill in its if skill not in known]:
            found[order_key(owner)] = format_array([*older, *known])
    return found
