"""What was downloaded before, so that it need not be downloaded again."""

import json
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from openskills.catalog.fetch.arriving import alone, forget, private
from openskills.catalog.fetch.urls import key, plain
from openskills.files import replace_file

_RECORD = "record.json"
_SUPERSEDED_AFTER = 3600.0


@dataclass(frozen=True, slots=True)
class Kept:
    """The answer of a server: the digest of its body, and what the server said about it."""

    sha256: str
    size: int
    url: str
    etag: str = ""
    last_modified: str = ""
    content_type: str = ""


class Shelf:
    """One directory per address, with a record and the body under its digest.

    The record is replaced in one step, after the body has arrived, so a reader sees one complete answer.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def body(self, url: str, kept: Kept) -> Path:
        """The file with the bytes."""
        return self._place(url) / kept.sha256

    def find(self, url: str) -> Kept | None:
        """The last complete answer, or None. Its body stays for an hour, whatever arrives in the meantime."""
        with alone(self._place(url)) as has_lock:
            kept = self._recorded(url)
            if kept and has_lock:
                with suppress(OSError):
                    os.utime(self.body(url, kept))
            return kept if kept and _size(self.body(url, kept)) == kept.size else None

    @contextmanager
    def arriving(self, url: str) -> Generator[Path]:
        """An empty file for a body that is on its way; it is gone at the end unless `keep` took it."""
        handle, name = tempfile.mkstemp(prefix=".arriving-", dir=private(self._place(url)))
        os.close(handle)
        try:
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)

    def keep(self, url: str, arrived: Path, kept: Kept) -> None:
        """Make a complete body the answer for this address; others that nobody asked for during an hour go."""
        place = self._place(url)
        arrived.replace(place / kept.sha256)
        replace_file(place / _RECORD, json.dumps(asdict(kept)).encode())
        forget(place, after=_SUPERSEDED_AFTER, keep=frozenset((_RECORD, kept.sha256)))

    def _recorded(self, url: str) -> Kept | None:
        try:
            record: object = json.loads((self._place(url) / _RECORD).read_bytes())
        except (OSError, ValueError):
            return None
        return _kept(record)

    def _place(self, url: str) -> Path:
        return self._directory / key(plain(url))


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _kept(record: object) -> Kept | None:
    if not isinstance(record, dict):
        return None
    fields = cast("dict[str, object]", record)
    size = fields.pop("size", None)
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    known = {"sha256", "url", "etag", "last_modified", "content_type"}
    if not isinstance(size, int) or texts.keys() != known:
        return None
    return Kept(size=size, **texts)
