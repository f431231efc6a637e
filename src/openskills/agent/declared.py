"""Skills that the caller wants to have loaded before the model is asked."""

from collections.abc import Sequence
from dataclasses import dataclass

from openskills.errors import InvalidArgument
from openskills.runtime.session import SkillSession
from openskills.tools.documents import checked_docs


@dataclass(frozen=True, slots=True)
class Load:
    """A skill to load, with documents or with all of them."""

    skill: str
    docs: tuple[str, ...] | None = None
    include_all_docs: bool = False


def checked(loads: Sequence[Load], limit: int) -> tuple[Load, ...]:
    """The same loads, each once. Raises `InvalidArgument` for what contradicts itself, before anything is done."""
    found: dict[str, Load] = {}
    for load in loads:
        if not load.skill.strip():
            raise InvalidArgument("loads", "a skill without a name cannot be loaded")
        if load.include_all_docs and load.docs:
            raise InvalidArgument("loads", f"{load.skill!r} has documents and all documents; give one of them")
        if found.setdefault(load.skill, load) != load:
            raise InvalidArgument("loads", f"{load.skill!r} is there twice, and not the same")
    if 0 < limit < len(found):
        raise InvalidArgument("loads", f"{len(found)} skills are more than the {limit} that may be loaded at once")
    return tuple(found.values())


async def declare(session: SkillSession, loads: Sequence[Load], limit: int = 0) -> None:
    """Load skills for the turn that begins. Raises what keeps one of them from being loaded; then none is."""
    wanted = checked(loads, limit)
    if not wanted:
        return
    for load in wanted:
        checked_docs(session.skill(load.skill), _docs(load))
    before = session.loaded_skills()
    results = [await session.call("skill_load", {"skill": load.skill, "docs": _docs(load)}) for load in wanted]
    failed = [result.error for result in results if result.error is not None]
    if failed:
        for load in wanted:
            if load.skill not in before:
                await session.call("skill_unload", {"skill": load.skill})
        raise failed[0]


def _docs(load: Load) -> list[str] | None:
    if load.include_all_docs:
        return ["*"]
    return None if load.docs is None else list(load.docs)
