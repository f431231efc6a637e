"""Where the paths of a manifest lead on this machine: the script to call, and the directory it may read."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.host.registration import Registration
from openskills.paths import inside
from openskills.skillmd.problem import Problem, Severity

_ON_DISK = ("cli:python", "cli:exec")


@dataclass(frozen=True, slots=True)
class Bases:
    """What relative paths are relative to: the directory the host was started in, then that of the manifest.

    An absolute `allowed_root` must lie in one of `roots` or in one of the others.
    """

    start: Path
    manifest: Path
    roots: tuple[Path, ...] = ()


class _NotUsable(Exception):
    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message


def settle(registration: Registration, bases: Bases) -> tuple[Registration | None, tuple[Problem, ...]]:
    """The registration with absolute paths, links resolved, or None and what is wrong with them."""
    problems: list[Problem] = []
    found: Registration | None = registration
    try:
        if registration.kind in _ON_DISK:
            program = registration.kind == "cli:exec"
            found = replace(registration, entry=str(_entry(registration.entry, bases, program=program)))
        if registration.allowed_root is not None:
            root, missing = _allowed_root(registration.allowed_root, bases)
            found = replace(found, allowed_root=root)
            problems += missing
    except _NotUsable as why:
        return None, (*problems, Problem(why.rule, why.message))
    return found, tuple(problems)


def _entry(entry: str, bases: Bases, *, program: bool) -> Path:
    tried: list[Path] = []
    for path in _candidates(entry, "entry", bases):
        tried.append(path)
        try:
            status = os.stat(path)
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode):
            raise _NotUsable("entry-type", f"entry: {path} is no file")
        if program and not os.access(path, os.X_OK):
            raise _NotUsable("entry-executable", f"entry: {path} cannot be executed; run chmod +x on it")
        if not os.access(path, os.R_OK):
            raise _NotUsable("entry-unreadable", f"entry: {path} cannot be read by the host")
        return path
    looked = " nor at ".join(map(str, dict.fromkeys(tried)))
    raise _NotUsable(
        "entry-missing", f"entry: there is no file at {looked}; relative paths begin where the host starts"
    )


def _allowed_root(wanted: Path, bases: Bases) -> tuple[Path, Sequence[Problem]]:
    homes = (*bases.roots, bases.start, bases.manifest) if wanted.is_absolute() else ()
    tried: list[Path] = []
    for path in _candidates(str(wanted), "allowed_root", bases):
        tried.append(path)
        if homes and not any(_below(path, home) for home in homes):
            message = (
                f"allowed_root: {wanted} lies neither in OPENSKILL_ALLOWED_ROOT, nor in OPENSKILL_HOST_ROOTS, nor "
                "where the host was started; add it to OPENSKILL_HOST_ROOTS"
            )
            raise _NotUsable("root-outside", message)
        if path.is_dir():
            return path, ()
        if path.exists():
            raise _NotUsable("root-type", f"allowed_root: {path} is no directory")
    if wanted in bases.roots:
        # The host's own, which many skills have no use for.
        return tried[0], ()
    message = f"allowed_root: there is no directory {tried[0]} yet; the skill can read nothing until there is"
    return tried[0], (Problem("root-missing", message, Severity.WARNING),)


def _candidates(written: str, field: str, bases: Bases) -> Iterator[Path]:
    """Where a path may lead, best first; who is content with the first does not pay for the second."""
    rule = f"{field.replace('_', '-')}-outside"
    if os.path.isabs(written):
        if ".." in Path(written).parts or "\0" in written:
            raise _NotUsable(rule, f"{field}: {written!r} climbs with '..'")
        yield Path(os.path.realpath(written))
        return
    try:
        yield _in(bases.start, written, field)
        yield _in(bases.manifest, written, field)
    except (ForbiddenPath, InvalidArgument) as error:
        raise _NotUsable(rule, f"{error.message}; it must stay below the directory it is relative to") from None


def _in(base: Path, written: str, field: str) -> Path:
    # A directory may be the base itself; `inside` is about names of files.
    if field == "allowed_root" and os.path.normpath(written) == ".":
        return Path(os.path.realpath(base))
    return inside(base, written, field=field)


def _below(path: Path, home: Path) -> bool:
    real = Path(os.path.realpath(home))
    return path == real or real in path.parents
