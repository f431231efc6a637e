"""The registry: which skills the host can invoke, from manifests, scripts and SKILL.md folders on disk.

Reading is blocking; a server does it in a thread. A reader sees the old state or the new one, never a mixture.
"""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from openskills.errors import InvalidArgument
from openskills.host.registration import Registration
from openskills.host.registry.entries import Changes, Entry, Offer
from openskills.host.registry.files import Directory, ManifestFile, Stamp, look, read, stamp_of
from openskills.host.registry.manifest import ID, ID_FORM, KINDS, Defaults, Parsed, parse
from openskills.host.registry.paths import Bases, settle
from openskills.host.registry.skill_folders import HostedFolder, SkillFolders
from openskills.paths import printable
from openskills.settings import Settings
from openskills.skillmd.problem import Problem

_FOLDERS, _SCRIPTS, _MANIFESTS = range(3)
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
        self._defaults = Defaults(
            timeout_ms=settings.timeout_ms,
            allowed_root=settings.allowed_root,
            environment=settings.environment,
            kinds=KINDS if kinds is None else tuple(kinds),
            # Asked at most once, and only when somebody wants a kind that is not ours: looking takes a while.
            more_kinds=cache(installed_kinds) if kinds is None else tuple,
            executor=settings.executor,
        )
        self._read: dict[Path, tuple[Stamp, Defaults, Parsed]] = {}
        self._absent: dict[str, tuple[Registration, Problem]] = {}
        self._found: tuple[Entry, ...] = ()
        self._offer = Offer()
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

    def known(self, skill_id: str) -> Registration | None:
        """The same, or None when there is none; costs little."""
        return self._offer.known(skill_id)

    def entry(self, skill_id: str) -> Entry:
        """The same for broken ones too. Raises `UnknownSkill`."""
        return self._offer.entry(skill_id)

    def all(self) -> tuple[Registration, ...]:
        """Everything that can be invoked, sorted by id."""
        return self._offer.registrations

    def entries(self) -> tuple[Entry, ...]:
        """Everything that was found, sorted by id, usable or not."""
        return self._offer.entries

    def mark(self, registration: Registration, problem: Problem | None) -> None:
        """Note that a skill cannot be called on this machine, or with None that it can; holds until it changes.

        Nothing happens when it has changed already, or is gone: what was found out says nothing of what is there now.
        """
        with self._reloading:
            noted = None if problem is None else (registration, problem)
            if self._offer.known(registration.id) is not registration or noted == self._absent.get(registration.id):
                return
            if noted is None:
                del self._absent[registration.id]
            else:
                self._absent[registration.id] = noted
            self._publish(self._found, self._offer.problems)

    def reload(self) -> Changes:
        """Look at the disk again, and read what has changed. What could not be read is in the entries."""
        with self._reloading:
            directories = [look(directory) for directory in self._directories]
            folders, problems = self._skill_folders.look()
            manifests = [*self._manifests(directories), *self._folders(folders)]
            found = (*manifests, *self._scripts(directories[0], manifests))
            self._forget({entry.origin for entry in found})
            return self._publish(found, (*(each for one in directories for each in one.problems), *problems))

    def _publish(self, found: tuple[Entry, ...], problems: tuple[Problem, ...]) -> Changes:
        earlier = {entry.origin: entry for entry in self._found}
        self._found = tuple(_same(earlier, entry) for entry in found)
        before = {entry.origin: entry for entry in self._offer.entries}
        offer = Offer((_same(before, self._available(entry)) for entry in self._found), problems)
        changes = offer.since(self._offer)
        if not offer.same_as(self._offer):
            self._offer = offer
        for skill_id, (registration, _) in [*self._absent.items()]:
            known = offer.by_id.get(skill_id)
            if known is None or known.registration != registration:
                del self._absent[skill_id]
        return changes

    def _manifests(self, directories: Sequence[Directory]) -> Iterable[Entry]:
        for number, directory in enumerate(directories):
            for file in directory.manifests:
                yield self._settled(self._parsed(file, self._defaults), file.path, _MANIFESTS + number)

    def _folders(self, folders: Sequence[HostedFolder]) -> Iterable[Entry]:
        for folder in folders:
            defaults = replace(self._defaults, **folder.defaults())
            if folder.manifest is not None:
                parsed, origin = self._parsed(folder.manifest, defaults), folder.manifest.path
            else:
                parsed, origin = parse(b"", name=folder.skill, is_json=False, defaults=defaults), folder.location
            yield self._settled(parsed, origin, _FOLDERS, folder.problems, start=folder.directory)

    def _scripts(self, directory: Directory, manifests: Sequence[Entry]) -> Iterable[Entry]:
        """The scripts that no manifest is about: also none that is broken, for it may have said what they may do."""
        taken = {entry.id for entry in manifests} | {file.skill for file in directory.manifests}
        called = {entry.registration.entry for entry in manifests if entry.registration is not None}
        for file in directory.scripts:
            if file.skill in taken or str(file.path.resolve()) in called:
                continue
            if not ID.fullmatch(file.skill):
                problem = Problem("id-form", f"the name of the script is no {ID_FORM}")
                yield Entry(file.skill, None, (_told(problem, file.path),), "broken", file.path, rank=_SCRIPTS)
                continue
            defaults = replace(self._defaults, entry=file.name, kind="cli:python")
            parsed = parse(b"", name=file.skill, is_json=False, defaults=defaults)
            yield self._settled(parsed, file.path, _SCRIPTS, start=file.root)

    def _parsed(self, file: ManifestFile, defaults: Defaults) -> Parsed:
        """What a file says. It is read again only when it or what counts without it has changed."""
        known = self._read.get(file.path)
        if known is not None and known[0] == stamp_of(file.path) and known[1] == defaults:
            return known[2]
        stamp, data, problem = read(file)
        if problem is not None:
            parsed = Parsed(file.skill, None, (problem,))
        else:
            parsed = parse(data, name=file.skill, is_json=file.is_json, defaults=defaults)
        if stamp is not None:
            self._read[file.path] = (stamp, defaults, parsed)
        return parsed

    def _settled(
        self, parsed: Parsed, origin: Path, rank: int, more: tuple[Problem, ...] = (), *, start: Path | None = None
    ) -> Entry:
        """The entry of a manifest on this machine: its paths are looked for every time, for they may have changed."""
        problems = parsed.problems
        registration = parsed.registration
        if registration is not None:
            registration = replace(registration, origin=origin)
            registration, found = settle(registration, Bases(start or self._start, origin.parent, self._roots))
            problems = (*problems, *found)
        told = tuple(_told(problem, origin) for problem in (*problems, *more))
        if registration is None:
            return Entry(parsed.id, None, told, "broken", origin, parsed.lines, rank)
        content = stamp_of(registration.entry) if registration.kind.startswith("cli:") else None
        return Entry(parsed.id, registration, told, "ready", origin, parsed.lines, rank, content)

    def _available(self, entry: Entry) -> Entry:
        """The entry with what this machine lacks for it."""
        registration = entry.registration
        if registration is None:
            return entry
        lacks = list(_missing_secrets(registration, self._settings.environment, entry))
        noted = self._absent.get(entry.id)
        if noted is not None and noted[0] == registration:
            lacks.append(noted[1])
        return replace(entry, status="unavailable", problems=(*entry.problems, *lacks)) if lacks else entry

    def _forget(self, origins: set[Path | None]) -> None:
        for path in self._read.keys() - origins:
            del self._read[path]


def installed_kinds() -> tuple[str, ...]:
    """The kinds that installed packages add (see `runners`)."""
    return tuple(sorted({point.name for point in entry_points(group="openskills.runners")}))


def _told(problem: Problem, origin: Path) -> Problem:
    """The problem with its file, in characters that everybody can print: paths may have any bytes."""
    return replace(problem, message=printable(problem.message), path=printable(problem.path or str(origin)))


def _same(before: Mapping[Path | None, Entry], entry: Entry) -> Entry:
    # Who holds a registration may ask with `is` whether it is still the same.
    known = before.get(entry.origin, entry)
    return known if known == entry else entry


def _missing_secrets(registration: Registration, environment: Mapping[str, str], entry: Entry) -> Iterable[Problem]:
    for name in registration.secrets:
        if not environment.get(name):
            message = f"secrets: {name} is not set where the host runs; set it and start the host again"
            yield Problem("secret-missing", message, line=entry.lines.get("secrets"), path=printable(str(entry.origin)))
