"""All skills at one moment; visibility; changes.

All skills at one moment, as one value that never changes.

Which skills a model is not shown, and why, in words that a person can act on.

What a refresh changed.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from openskills.catalog.search import Hit, SearchIndex
from openskills.catalog.skill import Skill
from openskills.errors import UnknownSkill
from openskills.settings import Settings
from openskills.skillmd.manifest import Requirements, SkillManifest
from openskills.skillmd.parse import normalize_name
from openskills.skillmd.problem import Problem, Severity


@dataclass(frozen=True, slots=True)
class HiddenSkill:
    """A skill that models are not shown, and the reason."""

    skill: Skill
    reason: str


@dataclass(frozen=True, slots=True)
class ShadowedSkill:
    """A skill that lost its name to a later one."""

    skill: Skill
    by: Skill


class CatalogSnapshot:
    """The skills of a catalog at one moment. Safe to share between threads; a refresh makes a new one.

    `skills` are those a model may see, sorted by name. `problems` has every fault that was met, of used and unused
    files alike.
    """

    def __init__(
        self,
        skills: Iterable[Skill] = (),
        *,
        hidden: Iterable[HiddenSkill] = (),
        shadowed: Iterable[ShadowedSkill] = (),
        problems: Iterable[Problem] = (),
    ) -> None:
        self.skills = tuple(sorted(skills, key=lambda skill: skill.name))
        self.hidden: Mapping[str, HiddenSkill] = {each.skill.name: each for each in hidden}
        self.shadowed = tuple(shadowed)
        self.problems = tuple(problems)
        self._by_name = {skill.name: skill for skill in self.skills}

    def get(self, name: str) -> Skill:
        """The visible skill of this name. Raises `UnknownSkill`, which carries the nearest names."""
        skill = self._by_name.get(normalize_name(name.strip()))
        if skill is None:
            raise UnknownSkill(name, self._index.find_similar_names(name))
        return skill

    def has(self, name: str) -> bool:
        """Whether a visible skill has exactly this name."""
        return name in self._by_name

    def find(self, name: str) -> Skill:
        """Like `get`, but finds hidden skills too: for people, never for a model."""
        hidden = self.hidden.get(normalize_name(name.strip()))
        return hidden.skill if hidden else self.get(name)

    def search(self, query: str, limit: int = 10) -> tuple[Hit, ...]:
        """The visible skills that fit `query`, best first."""
        return self._index.search(query, limit)

    def view(self, visible: Callable[[Skill], bool]) -> "CatalogSnapshot":
        """The same skills for one run: those for which `visible` is false are as good as absent."""
        return CatalogSnapshot(
            (skill for skill in self.skills if visible(skill)),
            hidden=self.hidden.values(),
            shadowed=self.shadowed,
            problems=self.problems,
        )

    def reveal(self, names: Iterable[str]) -> "CatalogSnapshot":
        """The same skills, with those of these names among the visible ones that are only reserved for people."""
        hidden = {name: self.hidden[name] for name in names if name in self.hidden}
        invited = [each for each in hidden.values() if each.skill.manifest.disable_model_invocation]
        if not invited:
            return self
        return CatalogSnapshot(
            (*self.skills, *(each.skill for each in invited)),
            hidden=[each for each in self.hidden.values() if each not in invited],
            shadowed=self.shadowed,
            problems=self.problems,
        )

    @cached_property
    def _index(self) -> SearchIndex:
        return SearchIndex(self.skills)


def build_snapshot(
    found: Iterable[Skill], hidden_reason: Callable[[Skill], str | None], problems: Iterable[Problem]
) -> CatalogSnapshot:
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
        ShadowedSkill(loser, winner)
        for loser in losers
        if os.path.realpath(loser.directory) != os.path.realpath((winner := winners[loser.name]).directory)
    ]
    skills: list[Skill] = []
    hidden: list[HiddenSkill] = []
    for skill in winners.values():
        reason = hidden_reason(skill)
        if reason is None:
            skills.append(skill)
        else:
            hidden.append(HiddenSkill(skill, reason))
    reports = (_shadow_problem(each) for each in shadowed)
    return CatalogSnapshot(skills, hidden=hidden, shadowed=shadowed, problems=(*problems, *reports))


def _shadow_problem(shadowed: ShadowedSkill) -> Problem:
    message = f"{shadowed.skill.name!r} is not used: {shadowed.by.location} has the same name and comes later"
    return Problem("name-shadowed", message, Severity.WARNING, path=shadowed.skill.location)


_SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "windows", "cygwin": "windows"}
_EVERYWHERE = ("python", "python3")


@dataclass(frozen=True, slots=True)
class Machine:
    """What requirements are checked against: the operating system, its programs, the environment."""

    system: str
    has_program: Callable[[str], bool]
    environment: Mapping[str, str]

    @classmethod
    def current(cls, settings: Settings) -> "Machine":
        """This machine, as `settings` see it. Programs are looked up once each; executors bring `python`."""

        @cache
        def has_program(name: str) -> bool:
            return name in _EVERYWHERE or shutil.which(name, path=settings.search_path) is not None

        return cls(_SYSTEMS.get(sys.platform, sys.platform), has_program, settings.environment)


def hidden_reason(manifest: SkillManifest, machine: Machine) -> str | None:
    """Why a model must not see this skill, or None when it may."""
    if manifest.disable_model_invocation:
        return "its author reserves it for people (disable-model-invocation)"
    if manifest.requirements and not manifest.requirements.always:
        return _find_unmet(manifest.requirements, machine)
    return None


def _find_unmet(needs: Requirements, machine: Machine) -> str | None:
    if needs.platforms and machine.system not in needs.platforms:
        return f"it is for {_join_any(needs.platforms)}, and this is {machine.system}"
    missing = [name for name in needs.bins if not machine.has_program(name)]
    if missing:
        return f"it needs the program {_join_all(missing)}; install it so that it is on the PATH"
    if needs.any_bins and not any(machine.has_program(name) for name in needs.any_bins):
        return f"it needs one of the programs {_join_any(needs.any_bins)}; install one so that it is on the PATH"
    unset = [name for name in needs.env if not machine.environment.get(name)]
    if unset:
        return f"it needs the environment variable {_join_all(unset)}; set it"
    return None


_MAX_NAMED = 5


def _join_all(names: list[str]) -> str:
    return " and ".join(_limit_names(names))


def _join_any(names: tuple[str, ...]) -> str:
    return " or ".join(_limit_names(names))


def _limit_names(names: Sequence[str]) -> list[str]:
    more = len(names) - _MAX_NAMED
    return [*names[:_MAX_NAMED], f"{more} more"] if more > 0 else list(names)


@dataclass(frozen=True, slots=True)
class CatalogChanges:
    """Names of visible skills that are new, that are gone, and whose SKILL.md or source differs."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def compare_snapshots(before: CatalogSnapshot, after: CatalogSnapshot) -> CatalogChanges:
    """What became of the visible skills between two snapshots."""
    old = {skill.name: skill for skill in before.skills}
    new = {skill.name: skill for skill in after.skills}
    return CatalogChanges(
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        changed=tuple(name for name in new if name in old and new[name] is not old[name]),
    )
