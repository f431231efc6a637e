"""Keys from before agents were told apart, and how they become those of an agent. Pure.

temp:skill:loaded:<skill>   temp:skill:docs:<skill>   temp:skill:loaded_order:
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from openskills.session.events import StateDelta, applied
from openskills.session.keys import YES, array_of, array_text, docs_key, docs_of, docs_text, loaded_key, order_key

OwnerOf: TypeAlias = Callable[[str], str | None]
"""Who touched a skill last: the author of the latest `skill_load` or `skill_select_docs` that names it, if any."""

_LOADED = "temp:skill:loaded:"
_DOCS = "temp:skill:docs:"
_ORDER = "temp:skill:loaded_order:"


def migrate(keys: Mapping[str, str], agent: str, owner_of: OwnerOf) -> StateDelta:
    """What has to be done to a state so that it has no such keys any more; empty when it has none.

    A value goes to the owner of its skill, or else to `agent`; with neither it stays where it is. Where the owner's own
    key has a value, that one counts.
    """
    changed: dict[str, str | None] = {}
    for key, text in keys.items():
        prefix = next((one for one in (_LOADED, _DOCS) if key.startswith(one)), key)
        skill = key.removeprefix(prefix)
        owner = (owner_of(skill) or agent) if skill and text else ""
        if owner:
            scoped, value = _moved(key, text, owner, skill)
            changed[key] = None
            changed |= {scoped: value} if value and not keys.get(scoped) else {}
    return {**changed, **_order(keys, changed, agent, owner_of)}


def _moved(key: str, text: str, owner: str, skill: str) -> tuple[str, str | None]:
    """The key and the value that take the place of an old one; no value for one that means nothing."""
    if key.startswith(_LOADED):
        return loaded_key(owner, skill), YES if text == YES else None
    return docs_key(owner, skill), docs_text(docs_of(text))


def _order(keys: Mapping[str, str], changed: StateDelta, agent: str, owner_of: OwnerOf) -> StateDelta:
    text = keys.get(_ORDER)
    owners = {skill: owner_of(skill) or agent for skill in array_of(text)}
    if not text or not all(owners.values()):
        return {}
    after = applied(keys, changed)
    found: dict[str, str | None] = {_ORDER: None}
    for owner in sorted(set(owners.values())):
        its = [skill for skill in owners if owners[skill] == owner and after.get(loaded_key(owner, skill)) == YES]
        found |= _merged(keys, owner, its)
    return found


def _merged(keys: Mapping[str, str], owner: str, its: Sequence[str]) -> StateDelta:
    """The owner's order with skills of old in front: what its own order names was touched later."""
    known = array_of(keys.get(order_key(owner)))
    older = [skill for skill in its if skill not in known]
    return {order_key(owner): array_text([*older, *known])} if older else {}
