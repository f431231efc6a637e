"""Registry.

What the host offers at one moment, as one value that never changes. Pure.

The registry: which skills the host can invoke, from manifests, scripts and SKILL.md folders on disk.

Reading is blocking; a server does it in a thread. A reader sees the old state or the new one, never a mixture.
"""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, cached_property
from hashlib import blake2b
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal

from openskills.errors import InvalidArgument, InvalidSkill, UnknownSkill
from openskills.host.model import Registration
from openskills.host.registry.folders import (
    FileStamp,
    HostedFolder,
    ManifestBasePaths,
    ManifestDirectory,
    ManifestFile,
    SkillFolders,
    read_manifest_file,
    read_stamp,
    resolve_paths,
    scan_directory,
)
from openskills.host.registry.manifest import (
    ID_FORM,
    ID_PATTERN,
    KINDS,
    ManifestDefaults,
    ManifestResult,
    parse_manifest,
)
from openskills.paths import to_printable
from openskills.settings import Settings
from openskills.skillmd.problem import Problem, Severity, select_errors

SkillStatus = Literal["ready", "broken", "unavailable"]
_MAX_SUGGESTIONS = 3
_MAX_COMPARISONS = 200


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """One skill of the host, usable or not, with everything that is wrong with it.

    `broken`: its manifest has errors, and there is no registration. `unavailable`: the manifest is fine, and this
    machine lacks something. `lines` has the fields that its manifest gives, with their lines where these are known.
    `rank` says which of several with one id counts: the highest.
    """

    id: str
    registration: Registration | None
    problems: tuple[Problem, ...] = ()
    status: SkillStatus = "ready"
    origin: Path | None = None
    lines: Mapping[str, int | None] = field(default_factory=dict[str, int | None])
    rank: int = 0
    content: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class RegistryChanges:
    """Ids whose entries came, went, or are not what they were; a script that was edited changes its skill too."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


class RegistrySnapshot:
    """All entries at one moment, sorted by id. Of several with one id one counts; the others say which."""

    def __init__(self, entries: Iterable[RegistryEntry] = (), problems: Iterable[Problem] = ()) -> None:
        self.problems = tuple(problems)
        self.by_id: dict[str, RegistryEntry] = {}
        losers: list[RegistryEntry] = []
        # Usable ones first: a broken manifest takes nothing away from another.
        for entry in sorted(entries, key=lambda each: (each.registration is None, -each.rank, str(each.origin))):
            winner = self.by_id.setdefault(entry.id, entry)
            if winner is not entry:
                losers.append(_report_duplicate(entry, winner))
        self.entries = tuple(sorted((*self.by_id.values(), *losers), key=lambda each: each.id))
        self._folded = {_normalize_id(name): name for name in sorted(self.by_id, reverse=True)}
        self.registrations = tuple(each.registration for each in self.entries if each.registration is not None)

    @cached_property
    def stamp(self) -> str:
        """A digest of all of it."""
        return blake2b(repr((self.entries, self.problems)).encode(errors="replace"), digest_size=16).hexdigest()

    def is_same_as(self, other: "RegistrySnapshot") -> bool:
        """Whether the two say the same."""
        return self.entries == other.entries and self.problems == other.problems

    def get_entry(self, skill_id: str) -> RegistryEntry:
        """The entry of this id; `_` and `-` find each other. Raises `UnknownSkill` with the nearest ids."""
        found = self._find_entry(skill_id)
        if found is None:
            raise UnknownSkill(skill_id, self._find_similar(skill_id))
        return found

    def get(self, skill_id: str) -> Registration:
        """The registration of this id. Raises `UnknownSkill`, and `InvalidSkill` where the manifest is broken."""
        found = self.get_entry(skill_id)
        if found.registration is None:
            said = "; ".join(problem.message for problem in select_errors(found.problems)[:3])
            raise InvalidSkill(f"the manifest of {found.id!r} is broken: {said}", found.problems)
        return found.registration

    def find(self, skill_id: str) -> Registration | None:
        """The same, or None."""
        found = self._find_entry(skill_id)
        return None if found is None else found.registration

    def compare_with(self, earlier: "RegistrySnapshot") -> RegistryChanges:
        """What is different from an earlier moment."""
        before, after = earlier.by_id, self.by_id
        return RegistryChanges(
            added=tuple(sorted(after.keys() - before.keys())),
            removed=tuple(sorted(before.keys() - after.keys())),
            changed=tuple(sorted(name for name in after.keys() & before.keys() if after[name] != before[name])),
        )

    def _find_entry(self, skill_id: str) -> RegistryEntry | None:
        return self.by_id.get(skill_id) or self.by_id.get(self._folded.get(_normalize_id(skill_id), ""))

    def _find_similar(self, skill_id: str) -> list[str]:
        # Comparing is slow, and whoever asks may ask often: only what can be near is compared.
        name = _normalize_id(skill_id[:64])
        ids = [each for each in self.by_id if each[:1] == name[:1] or abs(len(each) - len(name)) < _MAX_SUGGESTIONS]
        return get_close_matches(name, ids[:_MAX_COMPARISONS], n=_MAX_SUGGESTIONS)


def _normalize_id(skill_id: str) -> str:
    return skill_id.replace("-", "_")


def _report_duplicate(entry: RegistryEntry, winner: RegistryEntry) -> RegistryEntry:
    message = f"id: {entry.id!r} is taken by {to_printable(str(winner.origin))}; give this one another id"
    path = to_printable(str(entry.origin or ""))
    problem = Problem("id-taken", message, Severity.ERROR, entry.lines.get("id"), path=path)
    return RegistryEntry(entry.id, None, (*entry.problems, problem), "broken", entry.origin, entry.lines, entry.rank)


_FOLDER_RANK, _SCRIPT_RANK, _MANIFEST_RANK = range(3)
"""Ranks: of one id the manifest counts before the script, and the script before the SKILL.md folder."""


class Registry:
    """The skills of a host. Of equal ids a later source counts; the other is reported as broken."""

    def __init__(
        self,
        settings: Settings,
        *,
        manifests: Sequence[Path] = (),
        skills: Sequence[Path] = (),
        start: Path | None = None,
        kinds: Collection[str] | None = None,
    ) -> None:
        self._settings = settings
        self._directories = (settings.cli_dir, *manifests)
        self._skills = tuple(skills)
        self._skill_folders = SkillFolders(skills, settings)
        self._start = start or Path.cwd()
        self._roots = (settings.allowed_root, *settings.host_roots)
        self._defaults = ManifestDefaults(
            timeout_ms=settings.timeout_ms,
            allowed_root=settings.allowed_root,
            environment=settings.environment,
            kinds=KINDS if kinds is None else tuple(kinds),
            # Asked at most once, and only when somebody wants a kind that is not ours: looking takes a while.
            more_kinds=cache(find_installed_kinds) if kinds is None else tuple,
            executor=settings.executor,
        )
        self._read: dict[Path, tuple[FileStamp, ManifestDefaults, ManifestResult]] = {}
        self._absent: dict[str, tuple[Registration, Problem]] = {}
        self._found: tuple[RegistryEntry, ...] = ()
        self._offer = RegistrySnapshot()
        self._reloading = threading.Lock()

    @classmethod
    def load(
        cls,
        settings: Settings,
        *,
        manifests: Sequence[Path] = (),
        skills: Sequence[Path] = (),
        start: Path | None = None,
        kinds: Collection[str] | None = None,
    ) -> "Registry":
        """Read the manifests of `settings.cli_dir` and of the directories `manifests`, the scripts without one, and
        the SKILL.md folders below the directories `skills` that have an entry script.

        `start` is what relative paths in manifests are relative to first: the current directory, unless told otherwise.
        `kinds` are those that some runner takes: ours and those of installed packages, unless told otherwise. Raises
        `InvalidArgument` for a directory that is none; faults in files are in their entries.
        """
        for option, directories in (("--manifests", manifests), ("--skills", skills)):
            for directory in directories:
                if not directory.is_dir():
                    raise InvalidArgument(option, f"{directory} is no directory")
        registry = cls(settings, manifests=manifests, skills=skills, start=start, kinds=kinds)
        registry.reload()
        return registry

    @property
    def stamp(self) -> str:
        """A digest that changes whenever anything in it does; the same content has the same one in every process."""
        return self._offer.stamp

    @property
    def directories(self) -> tuple[Path, ...]:
        """Where to look for changes."""
        return (*self._directories, *self._skills)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the directories themselves."""
        return self._offer.problems

    def get(self, skill_id: str) -> Registration:
        """The registration of this id, exactly or with `_` for `-` and the other way round.

        Raises `UnknownSkill` with the nearest ids, and `InvalidSkill` with the problems of a broken manifest.
        """
        return self._offer.get(skill_id)

    def find(self, skill_id: str) -> Registration | None:
        """The same, or None when there is none; costs little."""
        return self._offer.find(skill_id)

    def get_entry(self, skill_id: str) -> RegistryEntry:
        """The same for broken ones too. Raises `UnknownSkill`."""
        return self._offer.get_entry(skill_id)

    def list_registrations(self) -> tuple[Registration, ...]:
        """Everything that can be invoked, sorted by id."""
        return self._offer.registrations

    def list_entries(self) -> tuple[RegistryEntry, ...]:
        """Everything that was found, sorted by id, usable or not."""
        return self._offer.entries

    def set_problem(self, registration: Registration, problem: Problem | None) -> None:
        """Note that a skill cannot be called on this machine, or with None that it can; holds until it changes.

        Nothing happens when it has changed already, or is gone: what was found out says nothing of what is there now.
        """
        with self._reloading:
            noted = None if problem is None else (registration, problem)
            if self._offer.find(registration.id) is not registration or noted == self._absent.get(registration.id):
                return
            if noted is None:
                del self._absent[registration.id]
            else:
                self._absent[registration.id] = noted
            self._publish(self._found, self._offer.problems)

    def reload(self) -> RegistryChanges:
        """Look at the disk again, and read what has changed. What could not be read is in the entries."""
        with self._reloading:
            directories = [scan_directory(directory) for directory in self._directories]
            folders, problems = self._skill_folders.scan()
            manifests = [*self._read_manifests(directories), *self._read_folders(folders)]
            found = (*manifests, *self._read_scripts(directories[0], manifests))
            self._forget({entry.origin for entry in found})
            return self._publish(found, (*(each for one in directories for each in one.problems), *problems))

    def _publish(self, found: tuple[RegistryEntry, ...], problems: tuple[Problem, ...]) -> RegistryChanges:
        earlier = {entry.origin: entry for entry in self._found}
        self._found = tuple(_reuse_entry(earlier, entry) for entry in found)
        before = {entry.origin: entry for entry in self._offer.entries}
        offer = RegistrySnapshot(
            (_reuse_entry(before, self._check_availability(entry)) for entry in self._found), problems
        )
        changes = offer.compare_with(self._offer)
        if not offer.is_same_as(self._offer):
            self._offer = offer
        for skill_id, (registration, _) in [*self._absent.items()]:
            known = offer.by_id.get(skill_id)
            if known is None or known.registration != registration:
                del self._absent[skill_id]
        return changes

    def _read_manifests(self, directories: Sequence[ManifestDirectory]) -> Iterable[RegistryEntry]:
        for number, directory in enumerate(directories):
            for file in directory.manifests:
                yield self._build_entry(self._parse_file(file, self._defaults), file.path, _MANIFEST_RANK + number)

    def _read_folders(self, folders: Sequence[HostedFolder]) -> Iterable[RegistryEntry]:
        for folder in folders:
            defaults = replace(self._defaults, **folder.manifest_defaults())
            if folder.manifest is not None:
                parsed, origin = self._parse_file(folder.manifest, defaults), folder.manifest.path
            else:
                parsed, origin = (
                    parse_manifest(b"", name=folder.skill, is_json=False, defaults=defaults),
                    folder.location,
                )
            yield self._build_entry(parsed, origin, _FOLDER_RANK, folder.problems, start=folder.directory)

    def _read_scripts(
        self, directory: ManifestDirectory, manifests: Sequence[RegistryEntry]
    ) -> Iterable[RegistryEntry]:
        """The scripts that no manifest is about: also none that is broken, for it may have said what they may do."""
        taken = {entry.id for entry in manifests} | {file.skill for file in directory.manifests}
        called = {entry.registration.entry for entry in manifests if entry.registration is not None}
        for file in directory.scripts:
            if file.skill in taken or str(file.path.resolve()) in called:
                continue
            if not ID_PATTERN.fullmatch(file.skill):
                problem = Problem("id-form", f"the name of the script is no {ID_FORM}")
                yield RegistryEntry(
                    file.skill, None, (_locate_problem(problem, file.path),), "broken", file.path, rank=_SCRIPT_RANK
                )
                continue
            defaults = replace(self._defaults, entry=file.name, kind="cli:python")
            parsed = parse_manifest(b"", name=file.skill, is_json=False, defaults=defaults)
            yield self._build_entry(parsed, file.path, _SCRIPT_RANK, start=file.root)

    def _parse_file(self, file: ManifestFile, defaults: ManifestDefaults) -> ManifestResult:
        """What a file says. It is read again only when it or what counts without it has changed."""
        known = self._read.get(file.path)
        if known is not None and known[0] == read_stamp(file.path) and known[1] == defaults:
            return known[2]
        stamp, data, problem = read_manifest_file(file)
        if problem is not None:
            parsed = ManifestResult(file.skill, None, (problem,))
        else:
            parsed = parse_manifest(data, name=file.skill, is_json=file.is_json, defaults=defaults)
        if stamp is not None:
            self._read[file.path] = (stamp, defaults, parsed)
        return parsed

    def _build_entry(
        self,
        parsed: ManifestResult,
        origin: Path,
        rank: int,
        more: tuple[Problem, ...] = (),
        *,
        start: Path | None = None,
    ) -> RegistryEntry:
        """The entry of a manifest on this machine: its paths are looked for every time, for they may have changed."""
        problems = parsed.problems
        registration = parsed.registration
        if registration is not None:
            registration = replace(registration, origin=origin)
            registration, found = resolve_paths(
                registration, ManifestBasePaths(start or self._start, origin.parent, self._roots)
            )
            problems = (*problems, *found)
        told = tuple(_locate_problem(problem, origin) for problem in (*problems, *more))
        if registration is None:
            return RegistryEntry(parsed.id, None, told, "broken", origin, parsed.lines, rank)
        content = read_stamp(registration.entry) if registration.kind.startswith("cli:") else None
        return RegistryEntry(parsed.id, registration, told, "ready", origin, parsed.lines, rank, content)

    def _check_availability(self, entry: RegistryEntry) -> RegistryEntry:
        """The entry with what this machine lacks for it."""
        registration = entry.registration
        if registration is None:
            return entry
        lacks = list(_find_missing_secrets(registration, self._settings.environment, entry))
        noted = self._absent.get(entry.id)
        if noted is not None and noted[0] == registration:
            lacks.append(noted[1])
        return replace(entry, status="unavailable", problems=(*entry.problems, *lacks)) if lacks else entry

    def _forget(self, origins: set[Path | None]) -> None:
        for path in self._read.keys() - origins:
            del self._read[path]


def find_installed_kinds() -> tuple[str, ...]:
    """The kinds that installed packages add (see `runners`)."""
    return tuple(sorted({point.name for point in entry_points(group="openskills.runners")}))


def _locate_problem(problem: Problem, origin: Path) -> Problem:
    """The problem with its file, in characters that everybody can print: paths may have any bytes."""
    return replace(problem, message=to_printable(problem.message), path=to_printable(problem.path or str(origin)))


def _reuse_entry(before: Mapping[Path | None, RegistryEntry], entry: RegistryEntry) -> RegistryEntry:
    # Who holds a registration may ask with `is` whether it is still the same.
    known = before.get(entry.origin, entry)
    return known if known == entry else entry


def _find_missing_secrets(
    registration: Registration, environment: Mapping[str, str], entry: RegistryEntry
) -> Iterable[Problem]:
    for name in registration.secrets:
        if not environment.get(name):
            message = f"secrets: {name} is not set where the host runs; set it and start the host again"
            yield Problem(
                "secret-missing", message, line=entry.lines.get("secrets"), path=to_printable(str(entry.origin))
            )
