"""Skills on this machine: a folder, a SKILL.md, or an archive."""

import os
import stat
from pathlib import Path

from openskills.catalog.progress import Progress
from openskills.catalog.root import Fetched, Root
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

    def fetch(self, progress: Progress) -> Fetched:
        """The folder itself, the folder of a SKILL.md, or an archive unpacked in the cache."""
        try:
            status = self._path.stat()
            if stat.S_ISREG(status.st_mode) and self._path.name.lower() != "skill.md":
                return self._archive(status, progress)
        except (FileNotFoundError, NotADirectoryError):
            message = f"{self.label}: there is no such folder or file; create it or correct the path"
            return Fetched((), (Problem("source-missing", message),))
        except OSError as error:
            raise SourceUnavailable(f"{self.label}: cannot be read: {error.strerror}") from None
        if self._pin:
            raise InvalidArgument("source", f"{self.label}: only an archive can be pinned with #sha256=")
        if stat.S_ISDIR(status.st_mode):
            return Fetched((Root(self._path, self.label),))
        if stat.S_ISREG(status.st_mode):
            return Fetched((Root(self._path.parent, self.label),))
        raise SourceUnavailable(f"{self.label}: is neither a folder nor a file")

    def _archive(self, status: os.stat_result, progress: Progress) -> Fetched:
        # The readers of archives are heavy, and most sources are folders.
        from openskills.catalog.fetch.placing import copied, place_archive, placed_archive, sha256_of

        name = self._path.name
        state = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        if self._digest is None or self._digest[0] != state:
            progress(f"unpacking {self.label}", 0, status.st_size)
            self._digest = (state, sha256_of(self._path))
        self._check(self._digest[1])
        folder = placed_archive(self._digest[1], self._cache, name=name)
        if not folder:
            # The file may have changed since it was read; what counts are the bytes that are unpacked.
            with self._path.open("rb") as file, copied(file, self._cache, name=name) as (copy, sha256):
                self._check(sha256)
                folder = place_archive(copy, sha256, self._cache, name=name)
                self._digest = (state, sha256)
        return Fetched((Root(folder, self.label, confine=folder, watch=False),))

    def _check(self, sha256: str) -> None:
        if self._pin and sha256 != self._pin:
            raise InvalidSkill(f"{self.label}: has sha256 {sha256}, but {self._pin} was expected; it was not used")
