"""The registry of hosted skills, from manifests, scripts and SKILL.md folders on disk.

Loading is blocking; a server does it in a thread. Readers see the old state or the new one, never a mixture.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from openskills.errors import InvalidArgument, InvalidSkill, UnknownSkill
from openskills.executors.requests import InstallMode, PackageOptions
from openskills.executors.staging.packages import PackageSet
from openskills.host.auth import OWNER_MARK
from openskills.host.model import Registration, SkillStartMethod
from openskills.host.registry.folders import (
    FileStamp,
    HostedFolder,
    ManifestBasePaths,
    ManifestDirectory,
    ManifestFile,
    SkillFolders,
    check_digest,
    read_manifest_file,
    read_stamp,
    resolve_paths,
    scan_directory,
)
from openskills.host.registry.manifest import (
    ID_FORM,
    ID_PATTERN,
    MAX_TIMEOUT_MS,
    ManifestDefaults,
    ManifestResult,
    parse_manifest,
)
from openskills.host.registry.scripts import HostedScript, ScriptFinder, SkippedFile
from openskills.host.runners.kinds import RUNNER_KINDS, find_installed_kinds
from openskills.host.runners.script import HelpReader, find_script_folder
from openskills.paths import to_printable
from openskills.project import NO_GRANTS, SkillGrants, combine_grants
from openskills.settings import Settings
from openskills.skillmd.problem import Problem, Severity, select_errors
from openskills.version import __version__

SkillStatus = Literal["ready", "broken", "unavailable"]
_MAX_SUGGESTIONS = 3
_MAX_COMPARISONS = 200
_DIGESTED_NAME = 47
"""Characters before the digest in a tool name; vendors accept 64."""


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """A skill of the host with its problems.

    `broken`: the manifest has errors, and `registration` is None. `unavailable`: the manifest is fine, but this
    machine lacks something. `lines` maps the fields of the manifest to lines, if known. Of several entries with one id
    the one with the highest `rank` counts. `pin` is the folder whose digest the manifest names.
    """

    id: str
    registration: Registration | None
    problems: tuple[Problem, ...] = ()
    status: SkillStatus = "ready"
    origin: Path | None = None
    lines: Mapping[str, int | None] = field(default_factory=dict[str, int | None])
    rank: int = 0
    content: tuple[int, ...] | None = None
    pin: Path | None = None


@dataclass(frozen=True, slots=True)
class RegistryChanges:
    """Ids of entries that were added, removed or changed, also by editing the script."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


class RegistrySnapshot:
    """An immutable state of the registry, sorted by id. Of duplicate ids one counts; the others are broken."""

    def __init__(
        self,
        entries: Iterable[RegistryEntry] = (),
        problems: Iterable[Problem] = (),
        skipped: Iterable[SkippedFile] = (),
    ) -> None:
        self.problems = tuple(problems)
        self.skipped = tuple(skipped)
        self.by_id: dict[str, RegistryEntry] = {}
        losers: list[RegistryEntry] = []
        # Those of the operator first, also broken ones: a folder or an upload must not take over the id of one with a
        # typo. Of the rest usable ones first, because a broken manifest does not displace another.
        for entry in sorted(
            entries,
            key=lambda each: (
                each.rank < _SCRIPT_RANK,
                each.registration is None and not each.pin,
                -each.rank,
                str(each.origin),
            ),
        ):
            winner = self.by_id.setdefault(entry.id, entry)
            if winner is not entry:
                losers.append(_report_duplicate(entry, winner))
        self.entries = tuple(sorted((*self.by_id.values(), *losers), key=lambda each: each.id))
        self.content = (self.entries, self.problems, self.skipped)
        self._folded: dict[str, list[str]] = {}
        for name in sorted(self.by_id):
            self._folded.setdefault(_normalize_id(name), []).append(name)
        self.registrations = tuple(each.registration for each in self.entries if each.registration is not None)

    def get_entry(self, skill_id: str) -> RegistryEntry:
        """The entry with this id or tool name; `_` and `-` are equivalent, and `--` stands for a dot.

        Raises `UnknownSkill` with similar ids, or with all ids that an ambiguous name can mean.
        """
        found = self._find_entry(skill_id)
        if found is None:
            if candidates := self._folded.get(_normalize_id(skill_id)):
                raise UnknownSkill(skill_id, candidates)
            # Comparing is slow and callers may ask often: only plausible ids are compared.
            name = _normalize_id(skill_id[:64])
            ids = [each for each in self.by_id if each[:1] == name[:1] or abs(len(each) - len(name)) < _MAX_SUGGESTIONS]
            raise UnknownSkill(skill_id, get_close_matches(name, ids[:_MAX_COMPARISONS], n=_MAX_SUGGESTIONS))
        return found

    def get(self, skill_id: str) -> Registration:
        """The registration with this id. Raises `UnknownSkill`, and `InvalidSkill` for a broken manifest."""
        found = self.get_entry(skill_id)
        if found.registration is None:
            said = "; ".join(problem.message for problem in select_errors(found.problems)[:3])
            raise InvalidSkill(f"the manifest of {found.id!r} is invalid: {said}", found.problems)
        return found.registration

    def find(self, skill_id: str) -> Registration | None:
        """The registration with this id, or None."""
        found = self._find_entry(skill_id)
        return None if found is None else found.registration

    def compare_with(self, earlier: "RegistrySnapshot") -> RegistryChanges:
        """The changes since an earlier state."""
        before, after = earlier.by_id, self.by_id
        return RegistryChanges(
            added=tuple(sorted(after.keys() - before.keys())),
            removed=tuple(sorted(before.keys() - after.keys())),
            changed=tuple(sorted(name for name in after.keys() & before.keys() if after[name] != before[name])),
        )

    def _find_entry(self, skill_id: str) -> RegistryEntry | None:
        found = self.by_id.get(skill_id)
        if found is not None:
            return found
        named = self._by_tool_name.get(skill_id)
        # A spelling that can mean several skills means none of them.
        candidates = [named] if named is not None else self._folded.get(_normalize_id(skill_id), ())
        return self.by_id[candidates[0]] if len(candidates) == 1 else None

    @cached_property
    def _by_tool_name(self) -> Mapping[str, str]:
        return {name: skill_id for skill_id, name in build_tool_names(self.by_id).items()}


def build_tool_names(skill_ids: Iterable[str]) -> dict[str, str]:
    """The tool names of all skills of a host, by id; each name belongs to one skill.

    Names have `-` for `_`, as the Agent Skills specification requires, and `--` for a dot. If that makes two ids equal,
    names have `__` for a dot, and if that is another id or equal too, a digest of the id at the end. The owner of an
    uploaded skill stays at the end of the name; `build_tools` removes it.
    """
    ids = sorted({*skill_ids})
    short = {one: _replace_name(one, lambda name: name.replace("_", "-").replace(".", "--")) for one in ids}
    long = {one: _replace_name(one, lambda name: name.replace(".", "__")) for one in ids}
    shorts, longs = Counter(short.values()), Counter(long.values())
    names: dict[str, str] = {}
    taken = {*short.values(), *long.values()}
    for one in ids:
        name = short[one] if shorts[short[one]] == 1 else long[one]
        if name == long[one] != one and longs[name] > 1:
            # An id can be made to look like the name of another skill.
            while name in taken:
                digest = blake2b(f"{one}\0{name}".encode(), digest_size=8).hexdigest()
                name = f"{long[one][:_DIGESTED_NAME]}-{digest}"
            taken.add(name)
        names[one] = name
    return names


def _normalize_id(skill_id: str) -> str:
    return _replace_name(skill_id, lambda name: name.replace(".", "__").replace("-", "_"))


def _replace_name(skill_id: str, change: Callable[[str], str]) -> str:
    name, mark, owner = skill_id.partition(OWNER_MARK)
    return change(name) + mark + owner


def _report_duplicate(entry: RegistryEntry, winner: RegistryEntry) -> RegistryEntry:
    message = f"id: {entry.id!r} is taken by {to_printable(str(winner.origin))}; use another id"
    path = to_printable(str(entry.origin or ""))
    problem = Problem("id-taken", message, Severity.ERROR, entry.lines.get("id"), path=path)
    return RegistryEntry(entry.id, None, (*entry.problems, problem), "broken", entry.origin, entry.lines, entry.rank)


_UPLOAD_RANK, _FOLDER_RANK, _SCRIPT_RANK, _MANIFEST_RANK = range(-1, 3)
"""Precedence: manifest, script, SKILL.md folder, upload."""


class Registry:
    """The skills of a host. Of duplicate ids the later source counts; the other is reported as broken."""

    def __init__(
        self,
        settings: Settings,
        *,
        manifests: Sequence[Path] = (),
        skills: Sequence[Path] = (),
        grants: Mapping[str, SkillGrants] | None = None,
        start: Path | None = None,
        read_help: bool = False,
        install: str = "never",
        uploads: Path | None = None,
    ) -> None:
        """Load the manifests and scripts of `settings.cli_dir`, the manifests in the directories `manifests`, and the
        SKILL.md folders below the directories `skills`.

        `grants` is what scripts and programs may use besides what manifests say, by skill (`*`: all); a granted timeout
        is the limit of every kind of skill. `start` is the base of relative paths in manifests, by default the current
        directory. With `read_help`, scripts without a manifest are run with `--help` in a sandbox, to derive their
        schemas; with `install` `always`, packages that their skills declare are installed. `uploads` is the directory
        `live` of a `SkillStore`. Raises `InvalidArgument` for a missing directory; errors in files are in their
        entries.
        """
        for option, directories in (("--manifests", manifests), ("--skills", skills)):
            for directory in directories:
                if not directory.is_dir():
                    raise InvalidArgument(option, f"{directory} is not a directory")
        self._settings = settings
        self._uploads = None if uploads is None else UploadedFolders(settings, uploads)
        self._install = InstallMode(install)
        self._grants = {_normalize_id(name): entry for name, entry in (grants or {}).items()}
        # Scripts see no directory of the host.
        base = Registration("", "", "", __version__, timeout_ms=settings.timeout_ms, executor=settings.executor)
        reader = HelpReader(settings) if read_help else None
        self._scripts = ScriptFinder(
            base, settings.search_path, reader, lambda skill: self._build_packages(self._get_grants(skill))
        )
        self._directories = (settings.cli_dir, *manifests)
        self._skills = tuple(skills)
        self._skill_folders = SkillFolders(skills, settings)
        self._start = start or Path.cwd()
        self._roots = (settings.allowed_root, *settings.host_roots)
        self._defaults = ManifestDefaults(
            timeout_ms=settings.timeout_ms,
            allowed_root=settings.allowed_root,
            environment=settings.environment,
            # Called at most once, and only for an unknown kind: scanning entry points is slow.
            more_kinds=cache(find_installed_kinds),
            executor=settings.executor,
        )
        self._read: dict[Path, tuple[FileStamp, ManifestDefaults, ManifestResult]] = {}
        self._absent: dict[str, tuple[Registration, Problem]] = {}
        self._found: tuple[RegistryEntry, ...] = ()
        self._offer = RegistrySnapshot()
        self._reloading = threading.Lock()
        self.reload()

    @property
    def directories(self) -> tuple[Path, ...]:
        """The directories to watch for changes."""
        pinned = {entry.pin: None for entry in self._found if entry.pin is not None}
        uploads = () if self._uploads is None else (self._uploads.directory,)
        return (*self._directories, *self._skills, *pinned, *uploads)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems with the directories themselves."""
        return self._offer.problems

    @property
    def skipped(self) -> tuple[SkippedFile, ...]:
        """Skills and scripts that are not served, with the reasons."""
        return self._offer.skipped

    def get(self, skill_id: str) -> Registration:
        return self._offer.get(skill_id)

    def find(self, skill_id: str) -> Registration | None:
        return self._offer.find(skill_id)

    def get_entry(self, skill_id: str) -> RegistryEntry:
        return self._offer.get_entry(skill_id)

    def list_registrations(self) -> tuple[Registration, ...]:
        """All usable skills, sorted by id."""
        return self._offer.registrations

    def list_entries(self) -> tuple[RegistryEntry, ...]:
        """All skills, usable or not, sorted by id."""
        return self._offer.entries

    def set_problem(self, registration: Registration, problem: Problem | None) -> None:
        """Mark a skill as unavailable, or with None as available, until it changes.

        Ignored if it has already changed or was removed.
        """
        with self._reloading:
            noted = None if problem is None else (registration, problem)
            if self._offer.find(registration.id) is not registration or noted == self._absent.get(registration.id):
                return
            if noted is None:
                del self._absent[registration.id]
            else:
                self._absent[registration.id] = noted
            self._publish(self._found, self._offer.problems, self._offer.skipped)

    def reload(self) -> RegistryChanges:
        """Read what has changed on disk. Errors in files are in their entries."""
        with self._reloading:
            directories = [scan_directory(directory) for directory in self._directories]
            folders, others, problems = self._skill_folders.scan()
            derived = self._scripts.find(others)
            manifests = [
                *self._read_manifests(directories),
                *self._read_folders(folders),
                *map(self._build_script_entry, derived.scripts),
            ]
            found = (*manifests, *self._read_scripts(directories[0], manifests))
            for path in self._read.keys() - {entry.origin for entry in found}:
                del self._read[path]
            faults = (*(each for one in directories for each in one.problems), *problems)
            uploaded, skipped = ((), ()) if self._uploads is None else self._uploads.read(found)
            return self._publish((*found, *uploaded), faults, (*derived.skipped, *skipped))

    def _publish(
        self, found: tuple[RegistryEntry, ...], problems: tuple[Problem, ...], skipped: tuple[SkippedFile, ...]
    ) -> RegistryChanges:
        earlier = {entry.origin: entry for entry in self._found}
        self._found = tuple(_reuse_entry(earlier, entry) for entry in found)
        before = {entry.origin: entry for entry in self._offer.entries}
        offer = RegistrySnapshot(
            (_reuse_entry(before, self._check_availability(entry)) for entry in self._found), problems, skipped
        )
        changes = offer.compare_with(self._offer)
        if offer.content != self._offer.content:
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
            timeout = self._get_timeout(self._get_grants(folder.skill.name))
            defaults = replace(self._defaults, in_folder=True, timeout_ms=timeout, **folder.manifest_defaults())
            if folder.manifest is not None:
                parsed, origin = self._parse_file(folder.manifest, defaults), folder.manifest.path
            else:
                parsed = parse_manifest(b"", name=folder.skill.name, is_json=False, defaults=defaults)
                origin = Path(folder.skill.location)
            yield self._build_entry(parsed, origin, _FOLDER_RANK, folder.problems, folder=folder.skill.path)

    def _build_script_entry(self, script: HostedScript) -> RegistryEntry:
        skill_id, path = script.registration.id, Path(script.registration.entry)
        problems = tuple(_locate_problem(problem, path) for problem in script.problems)
        # Grants are written for a skill; a script of it is `skill.script`.
        grants = self._get_grants(skill_id.partition(".")[0]).merge(self._grants.get(skill_id, NO_GRANTS))
        registration = replace(
            self._apply_grants(script.registration, grants),
            origin=path,
            timeout_ms=self._get_timeout(grants),
            packages=self._build_packages(grants),
        )
        content = read_stamp(path)
        return RegistryEntry(skill_id, registration, problems, "ready", path, content=content, rank=_FOLDER_RANK)

    def _read_scripts(
        self, directory: ManifestDirectory, manifests: Sequence[RegistryEntry]
    ) -> Iterable[RegistryEntry]:
        # Scripts without a manifest of the operator. A broken one counts, because it may restrict the script.
        taken = {entry.id for entry in manifests if entry.rank > _SCRIPT_RANK}
        taken |= {file.skill for file in directory.manifests}
        called = {entry.registration.entry for entry in manifests if entry.registration is not None}
        for file in directory.scripts:
            if file.skill in taken or str(file.path.resolve()) in called:
                continue
            if not ID_PATTERN.fullmatch(file.skill):
                problem = Problem("id-form", f"the name of the script is not {ID_FORM}")
                yield RegistryEntry(
                    file.skill, None, (_locate_problem(problem, file.path),), "broken", file.path, rank=_SCRIPT_RANK
                )
                continue
            defaults = replace(self._defaults, entry=file.name, kind="cli:python")
            parsed = parse_manifest(b"", name=file.skill, is_json=False, defaults=defaults)
            yield self._build_entry(parsed, file.path, _SCRIPT_RANK, start=file.root)

    def _parse_file(self, file: ManifestFile, defaults: ManifestDefaults) -> ManifestResult:
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
        folder: Path | None = None,
    ) -> RegistryEntry:
        # Paths are resolved every time, because they may have changed.
        problems = parsed.problems
        registration = parsed.registration
        if registration is not None:
            bases = ManifestBasePaths(folder or start or self._start, origin.parent, self._roots, folder is not None)
            registration, found = resolve_paths(replace(registration, origin=origin), bases)
            problems = (*problems, *found)
        lines = dict(parsed.lines)
        pin = None
        if registration is not None:
            registration, found = self._apply_limits(registration, lines)
            problems = (*problems, *found)
            pin = find_script_folder(registration) if registration.digest else None
            if (refusal := check_digest(registration)) is not None:
                problems = (*problems, replace(refusal, line=lines.get("digest")))
                registration = None
        told = tuple(_locate_problem(problem, origin) for problem in (*problems, *more))
        if registration is None:
            return RegistryEntry(parsed.id, None, told, "broken", origin, lines, rank, pin=pin)
        content = read_stamp(registration.entry) if registration.kind.startswith("cli:") else None
        return RegistryEntry(parsed.id, registration, told, "ready", origin, lines, rank, content, pin)

    def _get_grants(self, skill_id: str) -> SkillGrants:
        return combine_grants(self._grants, _normalize_id(skill_id))

    def _build_packages(self, grants: SkillGrants) -> PackageOptions:
        return PackageOptions(PackageSet(grants.packages, grants.npm), grants.venv, self._install)

    def _get_timeout(self, grants: SkillGrants) -> int:
        if grants.timeout is None:
            return self._settings.timeout_ms
        return min(max(1, round(grants.timeout * 1000)), MAX_TIMEOUT_MS)

    def _apply_grants(self, registration: Registration, grants: SkillGrants) -> Registration:
        """Add what the operator grants to a script or program; a variable overrides that of the manifest."""
        known = RUNNER_KINDS.get(registration.kind)
        if known is None or not registration.kind.startswith("cli:") or not grants:
            return registration
        return replace(
            registration,
            environment={**registration.environment, **grants.environment},
            secrets=tuple(dict.fromkeys((*registration.secrets, *grants.secrets))),
            network=grants.network,
        )

    def _apply_limits(
        self, registration: Registration, lines: dict[str, int | None]
    ) -> tuple[Registration, list[Problem]]:
        """What the operator has set limits what manifests say; `lines` keeps the fields that count."""
        settings, problems = self._settings, list[Problem]()
        grants = self._get_grants(registration.id)
        registration = self._apply_grants(registration, grants)

        def report(field: str, *, wider: bool, limit: object) -> None:
            line, name = lines.get(field), f"OPENSKILL_{field.upper()}"
            if field == "timeout_ms" and grants.timeout is not None:
                name = "the granted timeout"
            if wider:
                del lines[field]
                message = f"{field}: the manifest may only narrow {name}, which is used instead: {limit}"
                problems.append(Problem(f"{field.replace('_', '-')}-limit", message, Severity.WARNING, line))
            else:
                message = f"{field}: narrower than {name} ({limit})"
                problems.append(Problem(f"{field.replace('_', '-')}-narrowed", message, Severity.NOTE, line))

        timeout, root = registration.timeout_ms, registration.allowed_root
        limit = self._get_timeout(grants)
        is_limited = grants.timeout is not None or bool(settings.environment.get("OPENSKILL_TIMEOUT_MS"))
        if "timeout_ms" in lines and is_limited and timeout != limit:
            report("timeout_ms", wider=timeout > limit, limit=limit)
            registration = replace(registration, timeout_ms=min(timeout, limit))
        elif "timeout_ms" not in lines and grants.timeout is not None:
            registration = replace(registration, timeout_ms=limit)
        if "allowed_root" in lines and settings.environment.get("OPENSKILL_ALLOWED_ROOT") and root is not None:
            roots = [Path(os.path.realpath(one)) for one in self._roots]
            wider = not any(root.is_relative_to(one) for one in roots)
            if root != roots[0]:
                report("allowed_root", wider=wider, limit=roots[0])
            registration = replace(registration, allowed_root=roots[0] if wider else root)
        return registration, problems

    def _check_availability(self, entry: RegistryEntry) -> RegistryEntry:
        registration = entry.registration
        if registration is None:
            return entry
        missing = (name for name in registration.secrets if not self._settings.environment.get(name))
        line, path = entry.lines.get("secrets"), to_printable(str(entry.origin))
        said = "is not set in the environment of the host; set it and restart the host"
        lacks = [Problem("secret-missing", f"secrets: {name} {said}", line=line, path=path) for name in missing]
        noted = self._absent.get(entry.id)
        if noted is not None and noted[0] == registration:
            lacks.append(noted[1])
        return replace(entry, status="unavailable", problems=(*entry.problems, *lacks)) if lacks else entry


class UploadedFolders:
    """The skills of a `SkillStore` that are served.

    They are code of strangers: no grants of the operator apply, and they see no directory of the host. The id of a
    private skill ends with the name of the key that owns it.
    """

    def __init__(self, settings: Settings, directory: Path) -> None:
        # There are no manifests of the operator among them.
        self._settings = replace(settings, cli_dir=directory / ".none", host_roots=())
        self.directory = directory
        self._known: dict[str, tuple[tuple[Path, ...], Registry]] = {}

    def read(self, others: Iterable[RegistryEntry]) -> tuple[list[RegistryEntry], list[SkippedFile]]:
        """All entries, and what is not served. Skills of the operator in `others` have precedence over shared ones."""
        taken = {entry.id: entry for entry in others}
        entries: list[RegistryEntry] = []
        skipped: list[SkippedFile] = []
        known, self._known = self._known, {}
        for owner, directory in self._list_owners():
            # Links to folders that never change.
            folders = tuple(sorted(path.resolve() for path in directory.iterdir() if path.is_dir()))
            if owner not in known or known[owner][0] != folders:
                known[owner] = (folders, Registry(self._settings, skills=folders, start=directory))
            self._known[owner] = known[owner]
            mark = f"{OWNER_MARK}{owner}" if owner else ""
            for entry in known[owner][1].list_entries():
                winner = taken.get(entry.id) if not owner else None
                entries.append(_add_owner(entry, mark) if winner is None else _report_duplicate(entry, winner))
            skipped += [replace(one, id=f"{one.id}{mark}") for one in known[owner][1].skipped]
        return entries, skipped

    def _list_owners(self) -> Iterable[tuple[str, Path]]:
        yield "", self.directory / "shared"
        for path in sorted((self.directory / "keys").iterdir()):
            yield path.name, path


def _add_owner(entry: RegistryEntry, mark: str) -> RegistryEntry:
    registration = entry.registration
    if registration is not None:
        # No warm interpreter: callers could fill the memory with skills that nobody calls.
        limited = {"allowed_root": None, "warm": SkillStartMethod.SPAWN}
        registration = replace(registration, id=f"{entry.id}{mark}", **limited)
    return replace(entry, id=f"{entry.id}{mark}", registration=registration, rank=_UPLOAD_RANK)


def _locate_problem(problem: Problem, origin: Path) -> Problem:
    # Paths may contain any bytes.
    return replace(problem, message=to_printable(problem.message), path=to_printable(problem.path or str(origin)))


def _reuse_entry(before: Mapping[Path | None, RegistryEntry], entry: RegistryEntry) -> RegistryEntry:
    # Unchanged registrations stay identical objects, so that `is` detects changes.
    known = before.get(entry.origin, entry)
    return known if known == entry else entry
