"""SKILL.md folders that the host can call: those that name an entry script, or have one where it is looked for."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from openskills.catalog.catalog import Catalog
from openskills.catalog.skill import Skill
from openskills.host.registry.files import ManifestFile, manifests_in
from openskills.settings import Settings
from openskills.skillmd.problem import Problem, Severity

USUAL = ("scripts/invoke.py", "scripts/invoke")
"""The entry of a folder that names none: a name that nobody gives by accident."""


@dataclass(frozen=True, slots=True)
class HostedFolder:
    """A skill's folder with an entry, or with a manifest of its own, which then counts before its SKILL.md."""

    skill: str
    directory: Path
    location: Path
    entry: str
    description: str
    version: str | None
    manifest: ManifestFile | None
    problems: tuple[Problem, ...] = ()

    def defaults(self) -> dict[str, str]:
        """What its manifest need not say."""
        kind = "cli:python" if self.entry.endswith(".py") else "cli:exec"
        found = {"description": self.description, "entry": self.entry, "kind": kind if self.entry else ""}
        return {**found, "version": self.version} if self.version else found


class SkillFolders:
    """The SKILL.md folders below some directories."""

    def __init__(self, directories: Sequence[Path], settings: Settings) -> None:
        self._directories = tuple(directories)
        self._settings = settings
        self._catalog: Catalog | None = None

    def look(self) -> tuple[list[HostedFolder], tuple[Problem, ...]]:
        """What can be called now, and what is wrong with the directories and their skills."""
        if not self._directories:
            return [], ()
        if self._catalog is None:
            self._catalog = Catalog.from_paths(*self._directories, settings=self._settings)
        else:
            self._catalog.refresh()
        snapshot = self._catalog.snapshot
        folders = [_hosted(skill, None) for skill in snapshot.skills]
        folders += [_hosted(hidden.skill, hidden.reason) for hidden in snapshot.hidden.values()]
        return [folder for folder in folders if folder is not None], snapshot.problems


def _hosted(skill: Skill, hidden: str | None) -> HostedFolder | None:
    manifest = next(iter(manifests_in(skill.path.parent, skill.path.name)), None)
    entry = _entry(skill)
    if manifest is None and not entry:
        return None
    version = skill.manifest.version or skill.manifest.metadata.get("version")
    problems = (
        (Problem("skill-hidden", f"models are not shown this skill: {hidden}", Severity.WARNING),) if hidden else ()
    )
    return HostedFolder(
        skill=skill.name,
        directory=skill.path,
        location=Path(skill.location),
        entry=entry,
        description=skill.description,
        version=version if isinstance(version, str) else None,
        manifest=manifest,
        problems=problems,
    )


def _entry(skill: Skill) -> str:
    named = skill.manifest.metadata.get("entry")
    if isinstance(named, str) and named.strip():
        return named.strip()
    return next((name for name in USUAL if os.path.lexists(skill.path / name)), "")
