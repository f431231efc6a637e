"""The catalog: all skills of some sources, with precedence, visibility, search and refresh."""

import gc
import os
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from openskills.arguments import check_arguments
from openskills.catalog.discovery import RootScan, SkillFileEntry, discover, load_index, save_index, scan_listed
from openskills.catalog.locations import standard_sources
from openskills.catalog.root import Progress, Root, Source, no_progress
from openskills.catalog.search import Hit
from openskills.catalog.skill import SKILL_FILE, Skill
from openskills.catalog.snapshot import (
    CatalogChanges,
    CatalogSnapshot,
    Machine,
    build_snapshot,
    compare_snapshots,
    hidden_reason,
)
from openskills.catalog.sources.parse import parse_source
from openskills.catalog.watch import CatalogWatcher
from openskills.errors import InvalidArgument, SkillError
from openskills.settings import Settings
from openskills.skillmd.parse import manifest_from_fields
from openskills.skillmd.problem import Problem, Severity


@contextmanager
def pause_collector() -> Generator[None]:
    """Pause the garbage collector during work that allocates much and leaves no garbage.

    With several threads inside, the collector resumes when the first one leaves.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@check_arguments
class Catalog:
    """The skills of some sources. Of equal names the one from the later source counts; the other is reported.

    Every read goes to one immutable snapshot, which `refresh` replaces in one step: threads that read meanwhile see
    the old or the new state, never a mixture. Read `catalog.snapshot` once when several answers must fit together.
    """

    def __init__(
        self, sources: Sequence[Source], settings: Settings | None = None, progress: Progress = no_progress
    ) -> None:
        self._sources = tuple(sources)
        self._settings = settings or Settings.from_env()
        self._progress = progress
        self._scans: dict[Root, RootScan] = {}
        self._built: dict[str, tuple[SkillFileEntry, Skill]] = {}
        self._source_problems: list[Problem] = []
        self._refreshing = threading.Lock()
        self._showing = threading.Lock()
        self._found = CatalogSnapshot()
        self._invited: Counter[str] = Counter()
        self.roots: tuple[Root, ...] = ()
        self.snapshot = self._found
        self.refresh()

    @classmethod
    @check_arguments
    def from_paths(
        cls,
        *sources: str | os.PathLike[str],
        settings: Settings | None = None,
        progress: Progress = no_progress,
    ) -> "Catalog":
        """The skills in directories, archives, URLs, repositories and packages; later ones win.

        Raises `InvalidArgument` for text that names no source. A source that cannot be reached is a problem of the
        catalog and hides no other.
        """
        if not sources:
            raise InvalidArgument("sources", "expected at least one path; Catalog.standard() has the standard places")
        known = settings or Settings.from_env()
        return cls([parse_source(source, known) for source in sources], known, progress)

    @classmethod
    def standard(
        cls,
        start: str | os.PathLike[str] = ".",
        *,
        trusted: bool = False,
        settings: Settings | None = None,
        progress: Progress = no_progress,
    ) -> "Catalog":
        """What an agent that works in `start` should find: the standard places of home and project, and `SKILLS_ROOT`.

        The project's skills count when a person agreed to them, or when `trusted` says that they were checked.
        """
        known = settings or Settings.from_env()
        return cls(standard_sources(Path(start), known, trusted=trusted), known, progress)

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The skills that a model may see, sorted by name."""
        return self.snapshot.skills

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong with the skills and the sources."""
        return self.snapshot.problems

    def get(self, name: str) -> Skill:
        """The visible skill of this name. Raises `UnknownSkill`, which carries the nearest names."""
        return self.snapshot.get(name)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self.skills)

    def __len__(self) -> int:
        return len(self.skills)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.snapshot.has(name)

    def __getitem__(self, name: str) -> Skill:
        """The visible skill with this name; raises `UnknownSkill`, with the nearest names."""
        return self.get(name)

    @check_arguments
    def search(self, query: str, limit: int = 10) -> tuple[Hit, ...]:
        """The visible skills that fit `query`, best first."""
        return self.snapshot.search(query, limit)

    def view(self, visible: Callable[[Skill], bool]) -> CatalogSnapshot:
        """The skills for one run: those for which `visible` is false are as good as absent."""
        return self.snapshot.view(visible)

    @check_arguments
    @contextmanager
    def reveal(self, names: Iterable[str]) -> Generator[None]:
        """As long as the block lasts, models see these skills although their authors reserve them for people.

        Blocks may overlap, and a refresh in one changes nothing about it. Skills that are hidden for another reason, or
        unknown, stay as they are.
        """
        guests = tuple(names)
        self._publish(invited=guests)
        try:
            yield
        finally:
            self._publish(left=guests)

    def refresh(self) -> CatalogChanges:
        """Fetch every source again and look at what changed on disk since the last time; nothing else is read."""
        with self._refreshing:
            problems: list[Problem] = []
            roots: list[Root] = []
            for source in self._sources:
                roots.extend(self._fetch(source, problems))
            # A place that is named twice counts where it is named last.
            self.roots = tuple(dict.fromkeys(reversed(roots)))[::-1]
            with pause_collector():
                return self._rescan(problems)

    def _rescan(self, problems: list[Problem]) -> CatalogChanges:
        """Search the roots and put a new snapshot in the place of the old one if anything is different."""
        scans = {root: self._scan(root, problems) for root in self.roots}
        same = scans.keys() == self._scans.keys() and not any(scan.has_changes for scan in scans.values())
        self._scans = scans
        machine = Machine.current(self._settings)
        if same and problems == self._source_problems and self._has_same_requirements(machine):
            return CatalogChanges()
        before, self._source_problems = self._found, problems
        faults = [*problems, *self._collect_problems()]
        found = tuple(self._build_skills(faults))
        self._publish(build_snapshot(found, lambda skill: hidden_reason(skill.manifest, machine), tuple(faults)))
        return compare_snapshots(before, self._found)

    def _publish(
        self, found: CatalogSnapshot | None = None, *, invited: Sequence[str] = (), left: Sequence[str] = ()
    ) -> None:
        """Put a snapshot in the place of the old one: of what was found, with the guests that there are now."""
        with self._showing:
            self._invited.update(invited)
            self._invited.subtract(left)
            self._found = found or self._found
            self.snapshot = self._found.reveal(tuple(+self._invited))
            if not any(self._invited.values()):
                self._invited.clear()

    def watch(self, on_change: Callable[[CatalogChanges], None] | None = None) -> CatalogWatcher:
        """Follow the disk in a thread until the returned watcher is closed; a context manager.

        `on_change` is called in that thread after every refresh that changed something.
        """
        return CatalogWatcher(lambda: self.roots, self.refresh, on_change)

    def _fetch(self, source: Source, problems: list[Problem]) -> Sequence[Root]:
        try:
            fetched = source.fetch(self._progress)
            roots = [one for root in fetched.roots for one in self._open_plugin(root, problems)]
        except (SkillError, OSError, ValueError) as error:
            # An error of the system or of a library, too, must not cost the other sources.
            message = error.message if isinstance(error, SkillError) else f"{source.label}: {error}"
            problems.append(Problem("source-unavailable", message))
            return ()
        problems.extend(fetched.problems)
        return roots

    def _open_plugin(self, root: Root, problems: list[Problem]) -> Sequence[Root]:
        """The directories with the skills of a plugin; the directory itself if it is not one."""
        plugin = root.find_plugin()
        if plugin is None:
            return (root,)
        from openskills.catalog.sources.plugin import open_plugin

        found = open_plugin(plugin)
        problems.extend(found.problems)
        return found.roots

    def _scan(self, root: Root, problems: list[Problem]) -> RootScan:
        if root.listed is not None:
            return scan_listed(root.listed, self._scans.get(root))
        cache = self._settings.cache_dir if self._settings.index else None
        known = self._scans.get(root) or (load_index(cache, root) if cache else None)
        scan = discover(root, known, self._progress)
        if cache and scan.has_changes:
            try:
                save_index(cache, root, scan)
            except SkillError as error:
                problems.append(Problem("index-unwritable", error.message, Severity.NOTE, path=str(cache)))
        return scan

    def _has_same_requirements(self, machine: Machine) -> bool:
        """Whether programs and variables that skills require are there or missing as they were."""
        hidden = self._found.hidden
        demanding = (skill for skill in self._found.skills if skill.manifest.requirements)
        return all(hidden_reason(skill.manifest, machine) is None for skill in demanding) and all(
            hidden_reason(each.skill.manifest, machine) == each.reason for each in hidden.values()
        )

    def _collect_problems(self) -> Iterator[Problem]:
        for scan in self._scans.values():
            yield from scan.problems
            for entry in scan.visited.values():
                yield from entry.problems

    def _build_skills(self, faults: list[Problem]) -> Iterator[Skill]:
        built: dict[str, tuple[SkillFileEntry, Skill]] = {}
        for root, scan in self._scans.items():
            for directory, entry in scan.visited.items():
                if isinstance(entry, SkillFileEntry) and entry.fields is not None:
                    skill = self._build_skill(root, directory, entry)
                    if not skill.is_approved(SKILL_FILE, entry.seen or entry.stamp):
                        faults.append(skill.changed_problem)
                        continue
                    built[directory] = (entry, skill)
                    yield skill
        self._built = built

    def _build_skill(self, root: Root, directory: str, entry: SkillFileEntry) -> Skill:
        before = self._built.get(directory)
        origin = (root.label, root.approved)
        if before and _is_same(before[0], entry) and (before[1].source, before[1].approved) == origin:
            return before[1]
        manifest = entry.manifest or manifest_from_fields(entry.fields or {})
        remote = root.listed[directory].files if root.listed is not None else None
        return Skill(manifest, directory, root.label, entry.problems, root.approved, remote)


def _is_same(before: SkillFileEntry, now: SkillFileEntry) -> bool:
    """Whether a SKILL.md is the one that was read before, body included."""
    if before is now:
        return True
    return (before.seen or before.stamp) == (now.seen or now.stamp) and before.fields == now.fields
