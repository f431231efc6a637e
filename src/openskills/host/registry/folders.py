"""Find manifests and SKILL.md folders on disk, and resolve the paths of manifests."""

import os
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from openskills.catalog.catalog import Catalog
from openskills.catalog.skill import Skill
from openskills.catalog.trust import hash_folder
from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded
from openskills.host.model import Registration
from openskills.host.registry.manifest import DIGEST_PREFIX, FOLDER_KINDS, MAX_MANIFEST_BYTES, size_problem
from openskills.host.runners.script import find_script_folder
from openskills.paths import inside, open_inside, to_printable
from openskills.settings import Settings
from openskills.skillmd.problem import Problem, Severity

MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILES = 10_000
"""Entries of one directory that are read."""
_CLOCK_TICK = 100_000_000
"""Nanoseconds; ten times the coarsest file time of known kernels."""

FileStamp = tuple[int, int, int, int]
"""mtime and ctime (nanoseconds), size and inode: unchanged as long as the content is."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file below a directory of the host. `skill` is the id derived from its name."""

    root: Path
    name: str
    skill: str

    @property
    def path(self) -> Path:
        return self.root / self.name

    @property
    def is_json(self) -> bool:
        return self.name.endswith(".json")


@dataclass(frozen=True, slots=True)
class ManifestDirectory:
    """The manifests and Python scripts of a directory, sorted by name, and problems with it."""

    manifests: tuple[ManifestFile, ...] = ()
    scripts: tuple[ManifestFile, ...] = ()
    problems: tuple[Problem, ...] = ()


def scan_directory(directory: Path) -> ManifestDirectory:
    """List the manifests (`*.yaml`, `*.yml`, `*.json`, `<id>/manifest.yaml`) and scripts of a directory.

    Names that start with a dot or underscore are ignored. A missing directory counts as empty.
    """
    try:
        with os.scandir(directory) as entries:
            names = sorted((entry.name, _is_directory(entry)) for entry in entries if entry.name[0] not in "._")
    except FileNotFoundError:
        return ManifestDirectory()
    except OSError as error:
        message = f"cannot read the directory: {error.strerror or error}"
        return ManifestDirectory(problems=(Problem("directory-unreadable", message, path=str(directory)),))
    problems = ()
    if len(names) > MAX_FILES:
        message = f"the directory has {len(names):,} files; only the first {MAX_FILES:,} by name are used"
        problems = (Problem("directory-size", message, path=str(directory)),)
    manifests: list[ManifestFile] = []
    scripts: list[ManifestFile] = []
    for name, is_directory in names[:MAX_FILES]:
        stem, suffix = os.path.splitext(name)
        skill = to_printable(stem)
        if is_directory:
            manifests += find_manifests(directory, name)
        elif suffix in MANIFEST_SUFFIXES:
            manifests.append(ManifestFile(directory, name, skill))
        elif suffix == ".py":
            scripts.append(ManifestFile(directory, name, skill))
    return ManifestDirectory(tuple(manifests), tuple(scripts), problems)


def find_manifests(directory: Path, folder: str) -> list[ManifestFile]:
    """The manifests in the folder of a skill, normally one."""
    names = (f"{folder}/manifest{suffix}" for suffix in MANIFEST_SUFFIXES)
    return [ManifestFile(directory, name, to_printable(folder)) for name in names if os.path.lexists(directory / name)]


def read_stamp(path: str | Path) -> FileStamp | None:
    """The stamp of a file; None if it does not exist."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return _stamp_from_stat(status)


def read_manifest_file(file: ManifestFile) -> tuple[FileStamp | None, bytes, Problem | None]:
    """The stamp and bytes of a file, or the problem with it. A file that has just changed has none.

    Links are followed within the directory; a FIFO does not block.
    """
    try:
        descriptor = open_inside(str(file.root), file.name)
    except (ForbiddenPath, InvalidArgument):
        message = "the file is a link out of its directory; copy the file instead"
        return None, b"", Problem("link-leaves", message)
    except OSError as error:
        return None, b"", _unreadable_problem(error)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None, b"", Problem("file-type", "not a regular file")
        if status.st_size > MAX_MANIFEST_BYTES:
            return _stable_stamp(status), b"", size_problem(status.st_size)
        # One byte more, to notice a file that grows meanwhile.
        return _stable_stamp(status), os.read(descriptor, MAX_MANIFEST_BYTES + 1), None
    except OSError as error:
        return None, b"", _unreadable_problem(error)
    finally:
        os.close(descriptor)


def _stamp_from_stat(status: os.stat_result) -> FileStamp:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def _stable_stamp(status: os.stat_result) -> FileStamp | None:
    # File times are coarse: a change right after another may leave the stamp unchanged.
    return _stamp_from_stat(status) if time.time_ns() - status.st_ctime_ns > _CLOCK_TICK else None


def _unreadable_problem(error: OSError) -> Problem:
    return Problem("file-unreadable", f"cannot read the file: {error.strerror or error}")


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class ManifestBasePaths:
    """Base directories of relative paths: where the host was started, then that of the manifest.

    An absolute `allowed_root` must be in one of `roots` or in one of these. `in_folder`: the manifest is that of a
    skill folder, whose entry must be in the folder.
    """

    start: Path
    manifest: Path
    roots: tuple[Path, ...] = ()
    in_folder: bool = False


class _UnusablePath(Exception):
    """Its arguments are the rule and the message of a problem."""


def resolve_paths(
    registration: Registration, bases: ManifestBasePaths
) -> tuple[Registration | None, tuple[Problem, ...]]:
    """The registration with absolute, resolved paths, or None; and problems."""
    problems: list[Problem] = []
    found: Registration | None = registration
    try:
        if registration.kind in FOLDER_KINDS:
            program = registration.kind == "cli:exec"
            found = replace(registration, entry=str(_resolve_entry(registration.entry, bases, program=program)))
        if registration.allowed_root is not None:
            root, missing = _resolve_root(registration.allowed_root, bases)
            found = replace(found, allowed_root=root)
            problems += missing
    except _UnusablePath as why:
        return None, (*problems, Problem(*why.args))
    return found, tuple(problems)


def _resolve_entry(entry: str, bases: ManifestBasePaths, *, program: bool) -> Path:
    tried: list[Path] = []
    for path in _candidate_paths(entry, "entry", bases):
        tried.append(path)
        try:
            status = os.stat(path)
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode):
            raise _UnusablePath("entry-type", f"entry: {path} is not a regular file")
        if program and not os.access(path, os.X_OK):
            raise _UnusablePath("entry-executable", f"entry: {path} is not executable; run chmod +x on it")
        if not os.access(path, os.R_OK):
            raise _UnusablePath("entry-unreadable", f"entry: {path} is not readable by the host")
        return path
    looked = " nor at ".join(map(str, dict.fromkeys(tried)))
    message = f"entry: file not found at {looked}; relative paths start in the directory of the host"
    raise _UnusablePath("entry-missing", message)


def _resolve_root(wanted: Path, bases: ManifestBasePaths) -> tuple[Path, Sequence[Problem]]:
    homes = (*bases.roots, bases.start, bases.manifest) if wanted.is_absolute() else ()
    tried: list[Path] = []
    for path in _candidate_paths(str(wanted), "allowed_root", bases):
        tried.append(path)
        if homes and not any(path.is_relative_to(os.path.realpath(home)) for home in homes):
            message = (
                f"allowed_root: {wanted} is not below OPENSKILL_ALLOWED_ROOT, OPENSKILL_HOST_ROOTS or the directory "
                "of the host; add it to OPENSKILL_HOST_ROOTS"
            )
            raise _UnusablePath("root-outside", message)
        if path.is_dir():
            return path, ()
        if path.exists():
            raise _UnusablePath("root-type", f"allowed_root: {path} is not a directory")
    if wanted in bases.roots:
        # The default of the host, which many skills do not use.
        return tried[0], ()
    message = f"allowed_root: directory {tried[0]} does not exist; the skill can read nothing until it does"
    return tried[0], (Problem("root-missing", message, Severity.WARNING),)


def _candidate_paths(written: str, field: str, bases: ManifestBasePaths) -> Iterator[Path]:
    rule = f"{field.replace('_', '-')}-outside"
    if os.path.isabs(written):
        if bases.in_folder and field == "entry":
            raise _UnusablePath(rule, f"entry: {written!r} is absolute; use a path relative to the folder of the skill")
        if ".." in Path(written).parts or "\0" in written:
            raise _UnusablePath(rule, f"{field}: {written!r} contains '..'")
        yield Path(os.path.realpath(written))
        return
    try:
        for base in (bases.start, bases.manifest):
            # A directory may be the base itself; `inside` is for names of files.
            is_base = field == "allowed_root" and os.path.normpath(written) == "."
            yield Path(os.path.realpath(base)) if is_base else inside(base, written, field=field)
    except (ForbiddenPath, InvalidArgument) as error:
        raise _UnusablePath(
            rule, f"{error.message}; the path must stay below the directory it is relative to"
        ) from None


def check_digest(registration: Registration) -> Problem | None:
    """The problem with a skill whose manifest pins the digest of its folder, if the folder differs.

    That is the nearest directory above the entry that has a SKILL.md, or else the directory of the entry.
    """
    if not registration.digest:
        return None
    if registration.kind not in FOLDER_KINDS:
        return Problem(DIGEST_RULE, f"digest: skills of type {registration.kind} have no folder; remove this field")
    folder = find_script_folder(registration)
    try:
        found = DIGEST_PREFIX + hash_folder(folder, folder)[0]
    except (OSError, LimitExceeded) as error:
        return Problem(DIGEST_RULE, f"digest: cannot read {folder}: {error}")
    if found == registration.digest:
        return None
    message = (
        f"digest: {folder} has {found}, and the manifest names {registration.digest}; the skill is not served. "
        f"Review what has changed, then set `digest: {found}`"
    )
    return Problem(DIGEST_RULE, message)


DIGEST_RULE = "digest-mismatch"
ENTRY_SCRIPTS = ("scripts/invoke.py", "scripts/invoke")
"""Default entries of a folder."""


@dataclass(frozen=True, slots=True)
class HostedFolder:
    """A SKILL.md folder with an entry, or with a manifest, which takes precedence."""

    skill: Skill
    entry: str
    manifest: ManifestFile | None
    problems: tuple[Problem, ...] = ()

    def manifest_defaults(self) -> dict[str, str]:
        kind = "cli:python" if self.entry.endswith(".py") else "cli:exec"
        found = {"description": self.skill.description, "entry": self.entry, "kind": kind if self.entry else ""}
        version = find_version(self.skill)
        return {**found, "version": version} if version else found


class SkillFolders:
    """The SKILL.md folders below some directories that have an entry or a manifest."""

    def __init__(self, directories: Sequence[Path], settings: Settings) -> None:
        self._directories = tuple(directories)
        self._settings = settings
        self._catalog: Catalog | None = None

    def scan(self) -> "tuple[list[HostedFolder], list[tuple[Skill, Problem | None]], tuple[Problem, ...]]":
        """The current folders, the skills without entry and manifest (with a problem if they are hidden from models),
        and problems with the directories and skills."""
        if not self._directories:
            return [], [], ()
        if self._catalog is None:
            self._catalog = Catalog.from_paths(*self._directories, settings=self._settings)
        else:
            self._catalog.refresh()
        snapshot = self._catalog.snapshot
        visible = ((skill, None) for skill in snapshot.skills)
        hidden = ((each.skill, _hidden_problem(each.reason)) for each in snapshot.hidden.values())
        folders: list[HostedFolder] = []
        others: list[tuple[Skill, Problem | None]] = []
        for skill, problem in (*visible, *hidden):
            manifest = next(iter(find_manifests(skill.path.parent, skill.path.name)), None)
            entry = _find_entry_script(skill)
            if manifest is None and not entry:
                others.append((skill, problem))
            else:
                folders.append(HostedFolder(skill, entry, manifest, () if problem is None else (problem,)))
        return folders, others, snapshot.problems


def find_version(skill: Skill) -> str | None:
    """The version of a skill, which older ones have in their metadata."""
    version = skill.manifest.version or skill.manifest.metadata.get("version")
    return version if isinstance(version, str) else None


def _hidden_problem(reason: str) -> Problem:
    return Problem("skill-hidden", f"this skill is hidden from models: {reason}", Severity.WARNING)


def _find_entry_script(skill: Skill) -> str:
    named = skill.manifest.metadata.get("entry")
    if isinstance(named, str) and named.strip():
        return named.strip()
    return next((name for name in ENTRY_SCRIPTS if os.path.lexists(skill.path / name)), "")
