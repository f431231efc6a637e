"""Skills inside installed Python packages, found without importing them."""

import re
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from openskills.catalog.progress import Progress
from openskills.catalog.root import Fetched, Root
from openskills.errors import InvalidArgument, SourceUnavailable

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

    def fetch(self, progress: Progress) -> Fetched:
        """The folder; raises `SourceUnavailable` when there is no such package or it has no skills."""
        progress(f"looking into {self.label}", 0, None)
        places = [place.joinpath(*self._names[1:], _INSIDE) for place in _locations(self._names[0])]
        if not places:
            raise SourceUnavailable(f"{self.label}: no such package is installed here; install it with pip")
        roots = tuple(Root(place, self.label, watch=False) for place in places if place.is_dir())
        if not roots:
            raise SourceUnavailable(f"{self.label}: the package has no folder {_INSIDE}")
        return Fetched(roots)


class PackagesSource:
    """The `.agents/skills` folders of all packages in the directories for installed packages on `search_path`.

    Other directories of the search path, such as the current one, are left out: what lies there was not installed.
    """

    label = "packages:"

    def __init__(self, search_path: Sequence[str] | None = None) -> None:
        self._search_path = search_path

    def fetch(self, progress: Progress) -> Fetched:
        """Every folder there is, by name of package."""
        progress("looking into installed packages", 0, None)
        search_path = sys.path if self._search_path is None else self._search_path
        sites = dict.fromkeys(Path(entry) for entry in search_path if Path(entry).name in _SITES)
        return Fetched(tuple(root for site in sites for root in _roots(site)))


def _locations(name: str) -> list[Path]:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return []
    return [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []


def _roots(site: Path) -> Iterator[Root]:
    for place in sorted(site.glob(f"*/{_INSIDE}")):
        if place.is_dir():
            yield Root(place, f"package:{place.parts[-3]}", watch=False)
