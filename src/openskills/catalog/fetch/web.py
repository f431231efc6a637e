"""Skills at a web address: an archive, a SKILL.md, or a host that publishes an index."""

from pathlib import Path
from urllib.parse import unquote, urlunsplit

from openskills.catalog.fetch.download import Download, Downloads
from openskills.catalog.fetch.placing import has_archive_suffix, place_archive, place_skill_file
from openskills.catalog.fetch.unpack import archive_format
from openskills.catalog.fetch.urls import shown, split
from openskills.catalog.fetch.wellknown import PLACES, fetch_index
from openskills.catalog.progress import Progress
from openskills.catalog.root import Fetched, Root
from openskills.catalog.skill import SKILL_FILE
from openskills.errors import SourceUnavailable, UnsupportedMedia

_HEAD = 512


class WebSource:
    """An http or https address. What it holds is decided by what the server answers, not by its name alone."""

    def __init__(self, url: str, cache: Path, pin: str | None = None) -> None:
        self.label = shown(url)
        self._url = url
        self._cache = cache
        self._pin = pin

    def fetch(self, progress: Progress) -> Fetched:
        """Download what is new and give the folders with the skills."""
        with Downloads(self._cache / "downloads") as downloads:
            if self._name == "index.json":
                return self._index(self._url, downloads, progress)
            try:
                answer = downloads.get(self._url, pin=self._pin, progress=progress)
            except SourceUnavailable as error:
                if self._is_file or not self._may_have_index(error, downloads):
                    raise
                return self._probe(downloads, progress, str(error))
            return self._read(answer, downloads, progress)

    @property
    def _name(self) -> str:
        return unquote(split(self._url).path).rpartition("/")[2]

    @property
    def _is_file(self) -> bool:
        """Whether the address promises a file, so that nothing else is worth trying."""
        return bool(self._pin) or has_archive_suffix(self._name) or self._name == SKILL_FILE

    def _read(self, answer: Download, downloads: Downloads, progress: Progress) -> Fetched:
        with answer.path.open("rb") as file:
            head = file.read(_HEAD)
        if archive_format(head):
            folder = place_archive(answer.path, answer.sha256, self._cache, name=self._name or self.label)
        elif self._name == SKILL_FILE or head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"---"):
            folder = place_skill_file(answer.path, answer.sha256, self._cache, name=self._folder)
        elif head.lstrip().startswith(b"{"):
            return self._index(self._url, downloads, progress)
        elif self._is_file:
            raise UnsupportedMedia(f"{self.label}: is not a zip or tar archive")
        else:
            return self._probe(downloads, progress, f"{self.label}: is neither an archive nor a {SKILL_FILE}")
        return Fetched((Root(folder, self.label, confine=folder, watch=False),), answer.problems)

    @property
    def _folder(self) -> str:
        """The name of the folder in which a SKILL.md lies on the server."""
        return unquote(split(self._url).path).strip("/").rpartition("/")[0].rpartition("/")[2]

    def _index(self, url: str, downloads: Downloads, progress: Progress) -> Fetched:
        return fetch_index(url, downloads, self._cache, progress, pin=self._pin)

    def _places(self) -> tuple[str, ...]:
        parts = split(self._url)
        base = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
        return tuple(base + place for place in PLACES)

    def _may_have_index(self, error: SourceUnavailable, downloads: Downloads) -> bool:
        """A server that has nothing here may have an index below; one that cannot be reached may have had one."""
        return bool(error.details.get("final")) or any(map(downloads.kept, self._places()))

    def _probe(self, downloads: Downloads, progress: Progress, found: str) -> Fetched:
        for url in self._places():
            try:
                return self._index(url, downloads, progress)
            except UnsupportedMedia:
                # Servers of web applications answer every address with the same page.
                continue
            except SourceUnavailable as error:
                if not error.details.get("final"):
                    raise
        hint = "name an archive, a SKILL.md or an index.json; for a git repository write git+https://..."
        raise SourceUnavailable(f"{found}, and there is no {' or '.join(PLACES)} below it; {hint}")
