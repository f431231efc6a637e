"""All skills at one moment, as one value that never changes."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from openskills.catalog.search import Hit, SearchIndex
from openskills.catalog.skill import Skill
from openskills.errors import UnknownSkill
from openskills.skillmd.parse import normal_name
from openskills.skillmd.problem import Problem, Severity


@dataclass(frozen=True, slots=True)
class Hidden:
    """A skill that models are not shown, and the reason."""

    skill: Skill
    reason: str


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A skill that lost its name to a later one."""

    skill: Skill
    by: Skill


class Snapshot:
    """The skills of a catalog at one moment. Safe to share between threads; a refresh makes a new one.

    `skills` are those a model may see, sorted by name. `problems` has every fault that was met, of used and unused
    files alike.
    """

    def __init__(
        self,
        skills: Iterable[Skill] = (),
        *,
        hidden: Iterable[Hidden] = (),
        shadowed: Iterable[Shadowed] = (),
        problems: Iterable[Problem] = (),
    ) -> None:
        self.skills = tuple(sorted(skills, key=lambda skill: skill.name))
        self.hidden: Mapping[str, Hidden] = {each.skill.name: each for each in hidden}
        self.shadowed = tuple(shadowed)
        self.problems = tuple(problems)
        self._by_name = {skill.name: skill for skill in self.skills}

    def get(self, name: str) -> Skill:
        """The visible skill of this name. Raises `UnknownSkill`, which carries the nearest names."""
        skill = self._by_name.get(normal_name(name.strip()))
        if skill is None:
            raise UnknownSkill(name, self._index.near(name))
        return skill

    def has(self, name: str) -> bool:
        """Whether a visible skill has exactly this name."""
        return name in self._by_name

    def find(self, name: str) -> Skill:
        """Like `get`, but finds hidden skills too: for people, never for a model."""
        hidden = self.hidden.get(normal_name(name.strip()))
        return hidden.skill if hidden else self.get(name)

    def search(self, query: str, limit: int = 10) -> tuple[Hit, ...]:
        """The visible skills that fit `query`, best first."""
        return self._index.search(query, limit)

    def view(self, visible: Callable[[Skill], bool]) -> "Snapshot":
        """The same skills for one run: those for which `visible` is false are as good as absent."""
        return Snapshot(
            (skill for skill in self.skills if visible(skill)),
            hidden=self.hidden.values(),
            shadowed=self.shadowed,
            problems=self.problems,
        )

    def inviting(self, names: Iterable[str]) -> "Snapshot":
        """The same skills, with those of these names among the visible ones that are only reserved for people."""
        hidden = {name: self.hidden[name] for name in names if name in self.hidden}
        invited = [each for each in hidden.values() if each.skill.manifest.disable_model_invocation]
        if not invited:
            return self
        return Snapshot(
            (*self.skills, *(each.skill for each in invited)),
            hidden=[each for each in self.hidden.values() if each not in invited],
            shadowed=self.shadowed,
            problems=self.problems,
        )

    @cached_property
    def _index(self) -> SearchIndex:
        return SearchIndex(self.skills)


def assemble(
    found: Iterable[Skill], hidden_reason: Callable[[Skill], str | None], problems: Iterable[Problem]
) -> Snapshot:
    """One snapshot of skills in order of rising precedence: of equal names the last one counts, and it is reported."""
    winners: dict[str, Skill] = {}
    losers: list[Skill] = []
    for skill in found:
        loser = winners.pop(skill.name, None)
        if loser is not None:
            losers.append(loser)
        winners[skill.name] = skill
    # One folder that is reached on two ways, as installers link it, is no clash.
    shadowed = [
        Shadowed(loser, winner)
        for loser in losers
        if os.path.realpath(loser.directory) != os.path.realpath((winner := winners[loser.name]).directory)
    ]
    skills: list[Skill] = []
    hidden: list[Hidden] = []
    for skill in winners.values():
        reason = hidden_reason(skill)
        if reason is None:
            skills.append(skill)
        else:
            hidden.append(Hidden(skill, reason))
    reports = (_report(each) for each in shadowed)
    return Snapshot(skills, hidden=hidden, shadowed=shadowed, problems=(*problems, *reports))


def _report(shadowed: Shadowed) -> Problem:
    message = f"{shadowed.skill.name!r} is not used: {shadowed.by.location} has the same name and comes later"
    return Problem("name-shadowed", message, Severity.WARNING, path=shadowed.skill.location)
