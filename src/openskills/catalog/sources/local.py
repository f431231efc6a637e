"""Folders, archives, installed packages.

Skills on this machine: a folder, a SKILL.md, or an archive.

Skills inside installed Python packages, found without importing them.
"""

import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from openskills.catalog.root import FetchResult, Progress, Root
from openskills.errors import InvalidArgument, InvalidSkill, SourceUnavailable
from openskills.skillmd.problem import Problem


class LocalSource:
    """A path. What does not exist is a problem of rule `source-missing`, so that other sources still count."""

    def __init__(self, path: Path, label: str, cache: Path, pin: str | None = None) -> None:
        self.label = label
        self._path = path
        self._cache = cache
        self._pin = pin
        self._digest: tuple[tuple[int, ...], str] | None = None

    def fetch(self, progress: Progress) -> FetchResult:
        """The folder itself, the folder of a SKILL.md, or an archive unpacked in the cache."""
        try:
            status = self._path.stat()
            if stat.S_ISREG(status.st_mode) and self._path.name.lower() != "skill.md":
                return self._fetch_archive(status, progress)
        except (FileNotFoundError, NotADirectoryError):
            message = f"{self.label}: there is no such folder or file; create it or correct the path"
            return FetchResult((), (Problem("source-missing", message),))
        except OSError as error:
            raise SourceUnavailable(f"{self.label}: cannot be read: {error.strerror}") from None
        if self._pin:
            raise InvalidArgument("source", f"{self.label}: only an archive can be pinned with #sha256=")
        if stat.S_ISDIR(status.st_mode):
            return FetchResult((Root(self._path, self.label),))
        if stat.S_ISREG(status.st_mode):
            return FetchResult((Root(self._path.parent, self.label),))
        raise SourceUnavailable(f"{self.label}: is neither a folder nor a file")

    def _fetch_archive(self, status: os.stat_result, progress: Progress) -> FetchResult:
        # The readers of archives are heavy, and most sources are folders.
        from openskills.catalog.sources.cache import find_archive as placed_archive
        from openskills.catalog.sources.cache import hash_file as sha256_of
        from openskills.catalog.sources.cache import place_archive
        from openskills.catalog.sources.cache import private_copy as copied

        name = self._path.name
        state = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        if self._digest is None or self._digest[0] != state:
            progress(f"unpacking {self.label}", 0, status.st_size)
            self._digest = (state, sha256_of(self._path))
        self._check_pin(self._digest[1])
        folder = placed_archive(self._digest[1], self._cache, name=name)
        if not folder:
            # The file may have changed since it was read; what counts are the bytes that are unpacked.
            with self._path.open("rb") as file, copied(file, self._cache, name=name) as (copy, sha256):
                self._check_pin(sha256)
                folder = place_archive(copy, sha256, self._cache, name=name)
                self._digest = (state, sha256)
        return FetchResult((Root(folder, self.label, confine=folder, watch=False),))

    def _check_pin(self, sha256: str) -> None:
        if self._pin and sha256 != self._pin:
            raise InvalidSkill(f"{self.label}: has sha256 {sha256}, but {self._pin} was expected; it was not used")


_INSIDE = Path(".agents", "skills")
_SITES = ("site-packages", "dist-packages")


class PackageSource:
    """The `.agents/skills` folder of one package, by the name under which it is imported."""

    def __init__(self, name: str) -> None:
        self.label = f"package:{name}"
        # The name of a distribution has hyphens where that of the package has underscores.
        self._names = name.replace("-", "_").split(".")
        if not all(re.fullmatch(r"[^\W\d]\w*", part) for part in self._names):
            raise InvalidArgument("source", f"{self.label!r}: {name!r} is not the name of a package")

    def fetch(self, progress: Progress) -> FetchResult:
        """The folder; raises `SourceUnavailable` when there is no such package or it has no skills."""
        progress(f"looking into {self.label}", 0, None)
        places = [place.joinpath(*self._names[1:], _INSIDE) for place in _find_locations(self._names[0])]
        if not places:
            raise SourceUnavailable(f"{self.label}: no such package is installed here; install it with pip")
        roots = tuple(Root(place, self.label, watch=False) for place in places if place.is_dir())
        if not roots:
            raise SourceUnavailable(f"{self.label}: the package has no folder {_INSIDE}")
        return FetchResult(roots)


class PackagesSource:
    """The `.agents/skills` folders of all packages in the directories for installed packages on `search_path`.

    Other directories of the search path, such as the current one, are left out: what lies there was not installed.
    """

    label = "packages:"

    def __init__(self, search_path: Sequence[str] | None = None) -> None:
        self._search_path = search_path

    def fetch(self, progress: Progress) -> FetchResult:
        """Every folder there is, by name of package."""
        progress("looking into installed packages", 0, None)
        search_path = sys.path if self._search_path is None else self._search_path
        sites = dict.fromkeys(Path(entry) for entry in search_path if Path(entry).name in _SITES)
        return FetchResult(tuple(root for site in sites for root in _find_roots(site)))


def _find_locations(name: str) -> list[Path]:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return []
    return [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []


def _find_roots(site: Path) -> Iterator[Root]:
    for place in sorted(site.glob(f"*/{_INSIDE}")):
        if place.is_dir():
            yield Root(place, f"package:{place.parts[-3]}", watch=False)
