"""Local sources: a folder, a SKILL.md, an archive, or installed Python packages, which are not imported."""

import os
import re
import stat
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from openskills.catalog.root import FetchResult, Progress, Root
from openskills.errors import InvalidArgument, SourceUnavailable
from openskills.skillmd.problem import Problem


class LocalSource:
    """A local path. A missing one is a problem of rule `source-missing`, so that other sources are still used."""

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
            message = f"{self.label}: no such file or folder; create it or correct the path"
            return FetchResult((), (Problem("source-missing", message),))
        except OSError as error:
            raise SourceUnavailable(f"{self.label}: cannot be read: {error.strerror}") from None
        if self._pin:
            raise InvalidArgument("source", f"{self.label}: only an archive can be pinned with #sha256=")
        if stat.S_ISDIR(status.st_mode):
            return FetchResult((Root(self._path, self.label),))
        if stat.S_ISREG(status.st_mode):
            return FetchResult((Root(self._path.parent, self.label),))
        raise SourceUnavailable(f"{self.label}: neither a folder nor a file")

    def _fetch_archive(self, status: os.stat_result, progress: Progress) -> FetchResult:
        # Imported here because most sources are folders and do not need it.
        from openskills.catalog.sources.archive import hash_content
        from openskills.catalog.sources.cache import check_pin, find_archive, place_archive, private_copy

        name = self._path.name
        state = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        if self._digest is None or self._digest[0] != state:
            progress(f"unpacking {self.label}", 0, status.st_size)
            self._digest = (state, hash_content(self._path)[0])
        check_pin(self.label, self._digest[1], self._pin)
        folder = find_archive(self._digest[1], self._cache, name=name)
        if not folder:
            # The file may have changed since it was hashed; the unpacked bytes count.
            with self._path.open("rb") as file, private_copy(file, self._cache, name=name) as (copy, sha256):
                check_pin(self.label, sha256, self._pin)
                folder = place_archive(copy, sha256, self._cache, name=name)
                self._digest = (state, sha256)
        return FetchResult((Root(folder, self.label, confine=folder, watch=False),))


_INSIDE = Path(".agents", "skills")
_SITES = ("site-packages", "dist-packages")


class PackageSource:
    """The `.agents/skills` folder of one installed package, by import name."""

    def __init__(self, name: str) -> None:
        self.label = f"package:{name}"
        # Distribution names have hyphens where package names have underscores.
        self._names = name.replace("-", "_").split(".")
        if not all(re.fullmatch(r"[^\W\d]\w*", part) for part in self._names):
            raise InvalidArgument("source", f"{self.label!r}: invalid package name {name!r}")

    def fetch(self, progress: Progress) -> FetchResult:
        """The folder; raises `SourceUnavailable` for a missing package or one without skills."""
        progress(f"looking into {self.label}", 0, None)
        places = [place.joinpath(*self._names[1:], _INSIDE) for place in _find_locations(self._names[0])]
        if not places:
            raise SourceUnavailable(f"{self.label}: the package is not installed; install it with pip")
        roots = tuple(Root(place, self.label, watch=False) for place in places if place.is_dir())
        if not roots:
            raise SourceUnavailable(f"{self.label}: the package has no folder {_INSIDE}")
        return FetchResult(roots)


class PackagesSource:
    """The `.agents/skills` folders of all packages in the site-packages directories of `search_path`.

    Other directories, such as the current one, are not searched: their packages were not installed.
    """

    label = "packages:"

    def __init__(self, search_path: Sequence[str] | None = None) -> None:
        self._search_path = search_path

    def fetch(self, progress: Progress) -> FetchResult:
        """All such folders, sorted by package name."""
        progress("looking into installed packages", 0, None)
        search_path = sys.path if self._search_path is None else self._search_path
        sites = dict.fromkeys(Path(entry) for entry in search_path if Path(entry).name in _SITES)
        places = (place for site in sites for place in sorted(site.glob(f"*/{_INSIDE}")) if place.is_dir())
        return FetchResult(tuple(Root(place, f"package:{place.parts[-3]}", watch=False) for place in places))


def _find_locations(name: str) -> list[Path]:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return []
    return [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
