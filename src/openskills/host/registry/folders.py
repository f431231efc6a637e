"""Files and folders.

The files that can be manifests: where they lie, and reading one that may be anything.

Where the paths of a manifest lead on this machine: the script to call, and the directory it may read.

SKILL.md folders that the host can call: those that name an entry script, or have one where it is looked for.
"""

import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from openskills.catalog.catalog import Catalog
from openskills.catalog.skill import Skill
from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.host.model import Registration
from openskills.host.registry.manifest import MAX_MANIFEST_BYTES, size_problem
from openskills.paths import inside, open_inside, to_printable
from openskills.settings import Settings
from openskills.skillmd.problem import Problem, Severity

MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILES = 10_000
"""Manifests and scripts of one directory that are looked at."""

_CLOCK_TICK = 100_000_000
"""Nanoseconds; the kernels we know count file times in steps of at most a tenth of that."""

FileStamp = tuple[int, int, int, int]
"""Modified, changed (nanoseconds), size, inode: as long as these are the same, so is the content."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file below one of the host's directories. `skill` is the id that its name gives."""

    root: Path
    name: str
    skill: str

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.root / self.name

    @property
    def is_json(self) -> bool:
        """Whether it is JSON by its name."""
        return self.name.endswith(".json")


@dataclass(frozen=True, slots=True)
class ManifestDirectory:
    """What a directory holds, sorted by name: manifests, Python scripts, and what is wrong with the directory."""

    manifests: tuple[ManifestFile, ...] = ()
    scripts: tuple[ManifestFile, ...] = ()
    problems: tuple[Problem, ...] = ()


def scan_directory(directory: Path) -> ManifestDirectory:
    """The manifests of a directory (`*.yaml`, `*.yml`, `*.json`, `<id>/manifest.yaml`) and the scripts in it.

    Names that begin with a dot or an underscore are somebody's own business. A directory that is not there is empty.
    """
    try:
        with os.scandir(directory) as entries:
            names = sorted((entry.name, _is_directory(entry)) for entry in entries if entry.name[0] not in "._")
    except FileNotFoundError:
        return ManifestDirectory()
    except OSError as error:
        message = f"the directory cannot be read: {error.strerror or error}"
        return ManifestDirectory(problems=(Problem("directory-unreadable", message, path=str(directory)),))
    problems = ()
    if len(names) > MAX_FILES:
        message = f"the directory has {len(names):,} files; the first {MAX_FILES:,} by name are looked at"
        problems = (Problem("directory-size", message, path=str(directory)),)
    return _classify_files(directory, names[:MAX_FILES], problems)


def _classify_files(
    directory: Path, names: Iterable[tuple[str, bool]], problems: tuple[Problem, ...]
) -> ManifestDirectory:
    manifests: list[ManifestFile] = []
    scripts: list[ManifestFile] = []
    for name, is_directory in names:
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
    """The manifest of one skill's folder; more than one where somebody has written more than one."""
    names = (f"{folder}/manifest{suffix}" for suffix in MANIFEST_SUFFIXES)
    return [ManifestFile(directory, name, to_printable(folder)) for name in names if os.path.lexists(directory / name)]


def read_stamp(path: str | Path) -> FileStamp | None:
    """The stamp of a file; None where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return _stamp_from_stat(status)


def read_manifest_file(file: ManifestFile) -> tuple[FileStamp | None, bytes, Problem | None]:
    """The stamp and bytes of a file, or the problem with it. There is no stamp while the file may still be changing.

    A link is followed as long as it stays below the directory; a FIFO is not waited for.
    """
    try:
        descriptor = open_inside(str(file.root), file.name)
    except (ForbiddenPath, InvalidArgument):
        message = "the file is a link that leads out of its directory; put the file itself there"
        return None, b"", Problem("link-leaves", message)
    except OSError as error:
        return None, b"", _unreadable_problem(error)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None, b"", Problem("file-type", "this is no file that can be read")
        if status.st_size > MAX_MANIFEST_BYTES:
            return _stable_stamp(status), b"", size_problem(status.st_size)
        # One byte more, so that a file that grows in this moment is not taken for a whole one.
        return _stable_stamp(status), os.read(descriptor, MAX_MANIFEST_BYTES + 1), None
    except OSError as error:
        return None, b"", _unreadable_problem(error)
    finally:
        os.close(descriptor)


def _stamp_from_stat(status: os.stat_result) -> FileStamp:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def _stable_stamp(status: os.stat_result) -> FileStamp | None:
    """The stamp, unless the next change could leave it as it is: clocks of file systems tick slowly."""
    return _stamp_from_stat(status) if time.time_ns() - status.st_ctime_ns > _CLOCK_TICK else None


def _unreadable_problem(error: OSError) -> Problem:
    return Problem("file-unreadable", f"the file cannot be read: {error.strerror or error}")


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


_KINDS_ON_DISK = ("cli:python", "cli:exec")


@dataclass(frozen=True, slots=True)
class ManifestBasePaths:
    """What relative paths are relative to: the directory the host was started in, then that of the manifest.

    An absolute `allowed_root` must lie in one of `roots` or in one of the others.
    """

    start: Path
    manifest: Path
    roots: tuple[Path, ...] = ()


class _UnusablePath(Exception):
    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message


def resolve_paths(
    registration: Registration, bases: ManifestBasePaths
) -> tuple[Registration | None, tuple[Problem, ...]]:
    """The registration with absolute paths, links resolved, or None and what is wrong with them."""
    problems: list[Problem] = []
    found: Registration | None = registration
    try:
        if registration.kind in _KINDS_ON_DISK:
            program = registration.kind == "cli:exec"
            found = replace(registration, entry=str(_resolve_entry(registration.entry, bases, program=program)))
        if registration.allowed_root is not None:
            root, missing = _resolve_root(registration.allowed_root, bases)
            found = replace(found, allowed_root=root)
            problems += missing
    except _UnusablePath as why:
        return None, (*problems, Problem(why.rule, why.message))
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
            raise _UnusablePath("entry-type", f"entry: {path} is no file")
        if program and not os.access(path, os.X_OK):
            raise _UnusablePath("entry-executable", f"entry: {path} cannot be executed; run chmod +x on it")
        if not os.access(path, os.R_OK):
            raise _UnusablePath("entry-unreadable", f"entry: {path} cannot be read by the host")
        return path
    looked = " nor at ".join(map(str, dict.fromkeys(tried)))
    raise _UnusablePath(
        "entry-missing", f"entry: there is no file at {looked}; relative paths begin where the host starts"
    )


def _resolve_root(wanted: Path, bases: ManifestBasePaths) -> tuple[Path, Sequence[Problem]]:
    homes = (*bases.roots, bases.start, bases.manifest) if wanted.is_absolute() else ()
    tried: list[Path] = []
    for path in _candidate_paths(str(wanted), "allowed_root", bases):
        tried.append(path)
        if homes and not any(_is_below(path, home) for home in homes):
            message = (
                f"allowed_root: {wanted} lies neither in OPENSKILL_ALLOWED_ROOT, nor in OPENSKILL_HOST_ROOTS, nor "
                "where the host was started; add it to OPENSKILL_HOST_ROOTS"
            )
            raise _UnusablePath("root-outside", message)
        if path.is_dir():
            return path, ()
        if path.exists():
            raise _UnusablePath("root-type", f"allowed_root: {path} is no directory")
    if wanted in bases.roots:
        # The host's own, which many skills have no use for.
        return tried[0], ()
    message = f"allowed_root: there is no directory {tried[0]} yet; the skill can read nothing until there is"
    return tried[0], (Problem("root-missing", message, Severity.WARNING),)


def _candidate_paths(written: str, field: str, bases: ManifestBasePaths) -> Iterator[Path]:
    """Where a path may lead, best first; who is content with the first does not pay for the second."""
    rule = f"{field.replace('_', '-')}-outside"
    if os.path.isabs(written):
        if ".." in Path(written).parts or "\0" in written:
            raise _UnusablePath(rule, f"{field}: {written!r} climbs with '..'")
        yield Path(os.path.realpath(written))
        return
    try:
        yield _join_path(bases.start, written, field)
        yield _join_path(bases.manifest, written, field)
    except (ForbiddenPath, InvalidArgument) as error:
        raise _UnusablePath(rule, f"{error.message}; it must stay below the directory it is relative to") from None


def _join_path(base: Path, written: str, field: str) -> Path:
    # A directory may be the base itself; `inside` is about names of files.
    if field == "allowed_root" and os.path.normpath(written) == ".":
        return Path(os.path.realpath(base))
    return inside(base, written, field=field)


def _is_below(path: Path, home: Path) -> bool:
    real = Path(os.path.realpath(home))
    return path == real or real in path.parents


ENTRY_SCRIPTS = ("scripts/invoke.py", "scripts/invoke")
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

    def manifest_defaults(self) -> dict[str, str]:
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

    def scan(self) -> tuple[list[HostedFolder], tuple[Problem, ...]]:
        """What can be called now, and what is wrong with the directories and their skills."""
        if not self._directories:
            return [], ()
        if self._catalog is None:
            self._catalog = Catalog.from_paths(*self._directories, settings=self._settings)
        else:
            self._catalog.refresh()
        snapshot = self._catalog.snapshot
        folders = [_build_hosted_folder(skill, None) for skill in snapshot.skills]
        folders += [_build_hosted_folder(hidden.skill, hidden.reason) for hidden in snapshot.hidden.values()]
        return [folder for folder in folders if folder is not None], snapshot.problems


def _build_hosted_folder(skill: Skill, hidden: str | None) -> HostedFolder | None:
    manifest = next(iter(find_manifests(skill.path.parent, skill.path.name)), None)
    entry = _find_entry_script(skill)
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


def _find_entry_script(skill: Skill) -> str:
    named = skill.manifest.metadata.get("entry")
    if isinstance(named, str) and named.strip():
        return named.strip()
    return next((name for name in ENTRY_SCRIPTS if os.path.lexists(skill.path / name)), "")
