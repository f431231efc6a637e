"""An immutable snapshot of all skills, the reasons why some are hidden, and the changes between two snapshots."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from openskills.arguments import check_arguments
from openskills.catalog.search import Hit, SearchIndex
from openskills.catalog.skill import Skill
from openskills.errors import UnknownSkill
from openskills.settings import Settings
from openskills.skillmd.manifest import Requirements, SkillManifest
from openskills.skillmd.parse import normalize_name
from openskills.skillmd.problem import Problem, Severity


@dataclass(frozen=True, slots=True)
class HiddenSkill:
    """A skill that is hidden from models, and the reason."""

    skill: Skill
    reason: str


@dataclass(frozen=True, slots=True)
class ShadowedSkill:
    """A skill that is replaced by a later one of the same name."""

    skill: Skill
    by: Skill


class CatalogSnapshot:
    """The skills of a catalog at one moment, immutable and safe to share between threads.

    `skills` are visible to models and sorted by name. `problems` has the faults of used and unused files.
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
        """The visible skill of this name. Raises `UnknownSkill` with the nearest names."""
        skill = self._by_name.get(normalize_name(name.strip()))
        if skill is None:
            raise UnknownSkill(name, self._index.find_similar_names(name))
        return skill

    def has(self, name: str) -> bool:
        """Whether a visible skill has exactly this name."""
        return name in self._by_name

    def find(self, name: str) -> Skill:
        """Like `get`, including hidden skills: for users, not for models."""
        hidden = self.hidden.get(normalize_name(name.strip()))
        return hidden.skill if hidden else self.get(name)

    def search(self, query: str, limit: int = 10) -> tuple[Hit, ...]:
        """The visible skills that match `query`, best first."""
        return self._index.search(query, limit)

    def view(self, visible: Callable[[Skill], bool]) -> "CatalogSnapshot":
        """The same snapshot with only the skills for which `visible` is true."""
        return self._with_skills((skill for skill in self.skills if visible(skill)), self.hidden.values())

    @check_arguments
    def reveal(self, names: Iterable[str]) -> "CatalogSnapshot":
        """The same snapshot in which these skills are visible, if they were hidden as user-only."""
        chosen = [self.hidden[name] for name in dict.fromkeys(names) if name in self.hidden]
        invited = [each for each in chosen if each.skill.manifest.disable_model_invocation]
        if not invited:
            return self
        hidden = [each for each in self.hidden.values() if each not in invited]
        return self._with_skills((*self.skills, *(each.skill for each in invited)), hidden)

    def _with_skills(self, skills: Iterable[Skill], hidden: Iterable[HiddenSkill]) -> "CatalogSnapshot":
        return CatalogSnapshot(skills, hidden=hidden, shadowed=self.shadowed, problems=self.problems)

    @cached_property
    def _index(self) -> SearchIndex:
        return SearchIndex(self.skills)


def build_snapshot(
    found: Iterable[Skill], hidden_reason: Callable[[Skill], str | None], problems: Iterable[Problem]
) -> CatalogSnapshot:
    """Build a snapshot of skills in order of rising precedence; the last one of equal names wins, which is reported."""
    winners: dict[str, Skill] = {}
    losers: list[Skill] = []
    for skill in found:
        loser = winners.pop(skill.name, None)
        if loser is not None:
            losers.append(loser)
        winners[skill.name] = skill
    # The same folder reached in two ways, as some installers link it, is not a conflict.
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
    reports = (
        Problem(
            "name-shadowed",
            f"{each.skill.name!r} is not used: {each.by.location} has the same name and takes precedence",
            Severity.WARNING,
            path=each.skill.location,
        )
        for each in shadowed
    )
    return CatalogSnapshot(skills, hidden=hidden, shadowed=shadowed, problems=(*problems, *reports))


_SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "windows", "cygwin": "windows"}
_EVERYWHERE = ("python", "python3")


@dataclass(frozen=True, slots=True)
class Machine:
    """The operating system, programs and environment that requirements are checked against."""

    system: str
    has_program: Callable[[str], bool]
    environment: Mapping[str, str]

    @classmethod
    def current(cls, settings: Settings) -> "Machine":
        """This machine. Each program is looked up once; executors provide `python`."""

        @cache
        def has_program(name: str) -> bool:
            return name in _EVERYWHERE or shutil.which(name, path=settings.search_path) is not None

        return cls(_SYSTEMS.get(sys.platform, sys.platform), has_program, settings.environment)


def hidden_reason(manifest: SkillManifest, machine: Machine) -> str | None:
    """Why this skill is hidden from models, or None if it is visible."""
    if manifest.disable_model_invocation:
        return "only users may invoke it (disable-model-invocation)"
    if manifest.requirements and not manifest.requirements.always:
        return _find_unmet(manifest.requirements, machine)
    return None


def find_missing(needs: Requirements, machine: Machine) -> Requirements:
    """Those requirements that this machine does not meet."""
    has_any = any(machine.has_program(name) for name in needs.any_bins)
    return Requirements(
        bins=tuple(name for name in needs.bins if not machine.has_program(name)),
        any_bins=() if has_any else needs.any_bins,
        env=tuple(name for name in needs.env if not machine.environment.get(name)),
        platforms=() if machine.system in needs.platforms else needs.platforms,
    )


def _find_unmet(needs: Requirements, machine: Machine) -> str | None:
    if needs.platforms and machine.system not in needs.platforms:
        return f"it requires {_join(' or ', needs.platforms)}, and this is {machine.system}"
    missing = find_missing(needs, machine)
    if missing.bins:
        return f"it needs the program {_join(' and ', missing.bins)}; install it on the PATH"
    if missing.any_bins:
        return f"it needs one of the programs {_join(' or ', missing.any_bins)}; install one on the PATH"
    if missing.env:
        return f"it needs the environment variable {_join(' and ', missing.env)}; set it"
    return None


def _join(separator: str, names: Sequence[str]) -> str:
    more = len(names) - 5
    return separator.join([*names[:5], f"{more} more"] if more > 0 else names)


@dataclass(frozen=True, slots=True)
class CatalogChanges:
    """Names of visible skills that were added, removed, or changed (SKILL.md or source)."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def compare_snapshots(before: CatalogSnapshot, after: CatalogSnapshot) -> CatalogChanges:
    """The changes of the visible skills between two snapshots."""
    old = {skill.name: skill for skill in before.skills}
    new = {skill.name: skill for skill in after.skills}
    return CatalogChanges(
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        changed=tuple(name for name in new if name in old and new[name] is not old[name]),
    )
