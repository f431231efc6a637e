"""What is loaded, as the keys and texts of a conversation's state. Pure.

    temp:skill:loaded_by_agent:<agent>/<skill>    1
    temp:skill:docs_by_agent:<agent>/<skill>      * for every document, or a JSON array of paths
    temp:skill:loaded_order_by_agent:<agent>      a JSON array of the loaded skills, the latest last
    temp:skill:runnable_by_agent:<agent>/<skill>  1: not to be seen any more, but its commands may be run

The first three are read and written by others, too; what they leave behind (empty values, broken JSON, an order that
is not complete) loads nothing and breaks nothing.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import quote, unquote

from openskills.session.changes import ALL
from openskills.session.events import StateDelta
from openskills.session.state import AgentView, SkillEntry, SkillState

YES = "1"

_LOADED = "temp:skill:loaded_by_agent:"
_DOCS = "temp:skill:docs_by_agent:"
_ORDER = "temp:skill:loaded_order_by_agent:"
_RUNNABLE = "temp:skill:runnable_by_agent:"


def loaded_prefix(agent: str) -> str:
    """What every key begins with that says which skills an agent has loaded."""
    return f"{_LOADED}{_escaped(agent)}/"


def loaded_key(agent: str, skill: str) -> str:
    """The key that says that a skill is loaded."""
    return f"{loaded_prefix(agent)}{skill}"


def docs_key(agent: str, skill: str) -> str:
    """The key of the documents that are selected."""
    return f"{_DOCS}{_escaped(agent)}/{skill}"


def order_key(agent: str) -> str:
    """The key of the order in which an agent's skills were touched."""
    return f"{_ORDER}{_escaped(agent)}"


def runnable_key(agent: str, skill: str) -> str:
    """The key that says that a skill is not loaded, but may be run."""
    return f"{_RUNNABLE}{_escaped(agent)}/{skill}"


def to_keys(state: SkillState) -> dict[str, str]:
    """The state as keys and texts; what is not loaded, selected or to be run has no key."""
    return _keys_for(state, None)


def delta(before: SkillState, after: SkillState, *, agents: Collection[str] | None = None) -> StateDelta:
    """What has to be done to the keys of one state so that they are those of another.

    With `agents`, only theirs are looked at: the others' have not changed.
    """
    old, new = _keys_for(before, agents), _keys_for(after, agents)
    changed: dict[str, str | None] = {key: text for key, text in new.items() if old.get(key) != text}
    return changed | dict.fromkeys(key for key in old if key not in new)


def from_keys(keys: Mapping[str, object], clock: int = 0) -> SkillState:
    """The state that keys and texts describe; other keys are passed over.

    Its facts get numbers from 1 on in the order of touch; a loaded skill that the order does not name is older than
    those that it names. `clock` is the greatest number that this conversation has given so far; that of the state is
    at least as great, and a change with a number above it is newer than everything here.
    """
    held: dict[str, _Held] = {}
    for key, text in keys.items():
        _read(held, key, text)
    entries = {(agent, skill): entry for agent, one in held.items() for skill, entry in one.entries()}
    return SkillState(entries, {}, max([clock, *(entry.touched for entry in entries.values())]))


def docs_text(docs: Sequence[str]) -> str | None:
    """A selection as the text of its key; None, so no key, for an empty one."""
    if not docs:
        return None
    return ALL if ALL in docs else array_text(sorted(set(docs)))


def docs_of(text: object) -> tuple[str, ...]:
    """The selection that the text of a key means; empty for a text that means nothing."""
    found = (ALL,) if text == ALL else array_of(text)
    return (ALL,) if ALL in found else tuple(sorted(set(found)))


def array_text(names: Sequence[str]) -> str:
    """Names as a JSON array."""
    return json.dumps(names, separators=(",", ":"))


def array_of(text: object) -> tuple[str, ...]:
    """The names in a JSON array of texts; none for anything else."""
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
class _Held:
    """What the keys say about one agent."""

    loaded: set[str] = field(default_factory=set[str])
    runnable: set[str] = field(default_factory=set[str])
    docs: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    order: tuple[str, ...] = ()

    def entries(self) -> Iterator[tuple[str, SkillEntry]]:
        others = (self.runnable | self.docs.keys()) - self.loaded
        ordered = [skill for skill in self.order if skill in self.loaded]
        touched = [*sorted(others), *sorted(self.loaded.difference(ordered)), *ordered]
        for number, skill in enumerate(touched, 1):
            yield skill, self._entry(skill, number)

    def _entry(self, skill: str, number: int) -> SkillEntry:
        may_run = skill in self.loaded or skill in self.runnable
        return SkillEntry(
            loaded=number if may_run else 0,
            consumed=0 if skill in self.loaded else number,
            touched=number,
            chosen=(number, self.docs[skill]) if skill in self.docs else (0, ()),
        )


def _read(held: dict[str, _Held], key: str, text: object) -> None:
    """Take in what one key says, if it is one of ours and its text can be understood."""
    if key.startswith(_ORDER):
        # Named twice, the later place counts.
        latest = dict.fromkeys(reversed(array_of(text)))
        held.setdefault(_unescaped(key.removeprefix(_ORDER)), _Held()).order = tuple(reversed(latest))
        return
    prefix = next((one for one in (_LOADED, _DOCS, _RUNNABLE) if key.startswith(one)), "")
    escaped, _, skill = key.removeprefix(prefix).partition("/")
    if not prefix or not skill:
        return
    one = held.setdefault(_unescaped(escaped), _Held())
    if prefix == _DOCS:
        one.docs |= {skill: docs} if (docs := docs_of(text)) else {}
    elif text == YES:
        (one.loaded if prefix == _LOADED else one.runnable).add(skill)


def _keys_for(state: SkillState, agents: Collection[str] | None) -> dict[str, str]:
    entries: dict[str, dict[str, SkillEntry]] = {}
    for (agent, skill), entry in state.entries.items():
        if agents is None or agent in agents:
            entries.setdefault(agent, {})[skill] = entry
    views = [AgentView(agent, entries[agent], state.turns.get(agent, 0)) for agent in sorted(entries)]
    return {key: text for view in views for key, text in _keys_of(view)}


def _keys_of(view: AgentView) -> Iterator[tuple[str, str]]:
    for skill in sorted(view.entries):
        if view.is_loaded(skill):
            yield loaded_key(view.agent, skill), YES
        elif view.may_run(skill):
            yield runnable_key(view.agent, skill), YES
        if selected := docs_text(view.docs(skill)):
            yield docs_key(view.agent, skill), selected
    if loaded := view.loaded():
        yield order_key(view.agent), array_text(loaded)


def _escaped(agent: str) -> str:
    # Names with "%" are escaped, too: else "a/b" and "a%2Fb" were one agent.
    if "/" not in agent and "%" not in agent:
        return agent
    return quote(agent, safe="$&+:=@", errors="surrogatepass")


def _unescaped(escaped: str) -> str:
    """What `_escaped` made this of; a name that it would not have written so is taken as it stands."""
    try:
        agent = unquote(escaped, errors="surrogatepass")
    except UnicodeDecodeError:
        return escaped
    return agent if _escaped(agent) == escaped else escaped
