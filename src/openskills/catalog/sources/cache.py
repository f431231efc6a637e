"""Downloads and unpacked trees on disk.

What came from elsewhere, as a folder in the cache: the same content is placed once.

Web addresses: taken apart, compared, joined, and shown without what is secret in them.

What was downloaded before, so that it need not be downloaded again.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, cast
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from openskills.catalog.skill import SKILL_FILE
from openskills.catalog.sources.archive import unpack
from openskills.catalog.sources.entries import is_plain_name
from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded, SourceUnavailable
from openskills.filesystem import (
    MONTH,
    find_folder,
    make_private,
    remove_unused,
    replace_directory,
    replace_file,
    scratch_directory,
    try_lock_directory,
)
from openskills.skillmd.parse import parse

_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".skill")
_HEAD = 65536
_CHUNK = 1 << 20
_MAX_ARCHIVE = 512 << 20


def has_archive_suffix(name: str) -> bool:
    """Whether a file name promises an archive."""
    return name.lower().endswith(_SUFFIXES)


def place_archive(archive: Path, sha256: str, cache: Path, *, name: str) -> Path:
    """The folder with the files of an archive. `name` is how people call the archive; messages use it.

    An archive that is one skill, with a SKILL.md at its root, gets a folder named as the skill, because the name of a
    skill has to be that of its folder. Nobody else may write to `archive`: its digest has to be `sha256`.
    """
    return _create_folder(cache / "archives", sha256, name, lambda content: unpack(archive, content, label=name))


def find_archive(sha256: str, cache: Path, *, name: str) -> Path | None:
    """The folder of an archive with this digest that was placed before."""
    return _find_folder(cache / "archives", sha256, name)


def place_skill_file(file: Path, sha256: str, cache: Path, *, name: str) -> Path:
    """A folder that holds this SKILL.md and nothing else."""

    def fill(content: Path) -> None:
        content.mkdir(mode=0o755)
        shutil.copyfile(file, content / SKILL_FILE)

    return _create_folder(cache / "files", sha256, name, fill)


@contextmanager
def private_copy(file: IO[bytes], cache: Path, *, name: str) -> Generator[tuple[Path, str]]:
    """A copy that nobody else writes to, and its digest, so that what is checked is what is unpacked."""
    digest, count = hashlib.sha256(), 0
    with scratch_directory(cache / "archives") as directory:
        copy = directory / "archive"
        with copy.open("wb") as target:
            while chunk := file.read(_CHUNK):
                count += len(chunk)
                if count > _MAX_ARCHIVE:
                    raise LimitExceeded(f"{name}: is larger than {_MAX_ARCHIVE:,} bytes, too much for an archive")
                digest.update(chunk)
                target.write(chunk)
        yield copy, digest.hexdigest()


def hash_file(path: Path) -> str:
    """The digest of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_name(content: Path, fallback: str) -> str:
    """The name that a folder should have: that of the skill it is, else `fallback`, else "skills"."""
    return _read_skill_name(content) or _safe_name(fallback)


def strip_archive_suffix(name: str) -> str:
    """The name of an archive without the suffix that says so."""
    suffixes = sorted((suffix for suffix in _SUFFIXES if name.lower().endswith(suffix)), key=len)
    return name[: -len(suffixes[-1])] if suffixes else name


def _find_folder(parent: Path, sha256: str, name: str) -> Path | None:
    folder = find_folder(parent / sha256) or find_folder(parent / f"{sha256}-{_safe_name(strip_archive_suffix(name))}")
    if folder:
        remove_unused(parent, after=MONTH)
    return folder


def _create_folder(parent: Path, sha256: str, name: str, fill: Callable[[Path], None]) -> Path:
    folder = _find_folder(parent, sha256, name)
    if not folder:
        with scratch_directory(parent) as temporary:
            content = temporary / "content"
            fill(content)
            own = _read_skill_name(content)
            fallback = _safe_name(strip_archive_suffix(name))
            # A folder that is called as its archive is not for those who have the same bytes under another name.
            with replace_directory(parent / (sha256 if own else f"{sha256}-{fallback}")) as place:
                content.rename(place / (own or fallback))
        folder = _find_folder(parent, sha256, name)
    if not folder:
        raise SourceUnavailable(f"{name}: holds no files")
    return folder


def _read_skill_name(content: Path) -> str | None:
    manifest = content / SKILL_FILE
    if not manifest.is_file():
        return None
    with manifest.open("rb") as file:
        parsed = parse(file.read(_HEAD).decode("utf-8", "replace")).manifest
    return parsed.name if parsed and is_plain_name(parsed.name) else None


def _safe_name(name: str) -> str:
    return name if is_plain_name(name) else "skills"


_ADDRESS = re.compile(r"(?<=://)([^/?#\s]*)(\S*)")
_HOST = re.compile(r"localhost|(?:[\w-]+\.)+[\w-]+")
_QUERY = re.compile(r"\?[^#\s]*")
_PORTS = {"http": 80, "https": 443}


def split_url(url: str) -> SplitResult:
    """The parts of an address; raises `InvalidArgument`, without secrets, for what is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # The reason of the library repeats a piece of the address, which may be a piece of a password.
        raise _invalid_url(url, "its host or port is malformed") from None
    if not url.isprintable() or " " in url:
        raise _invalid_url(url, "it has spaces or control characters; write a space as %20")
    labels = (parts.hostname or "-").removesuffix(".").split(".")
    if not all(0 < len(label) < 64 for label in labels):
        raise _invalid_url(url, "the parts of the host's name must have 1 to 63 characters")
    return parts


def redact(text: str) -> str:
    """The text with user names, passwords, queries and fragments of addresses taken out.

    A password with a `/`, `?` or `#` in it looks like the rest of an address. So where an `@` comes late, everything
    before it is taken out, unless the address begins with the full name of a host.
    """
    return _QUERY.sub("?...", _ADDRESS.sub(_redact_user, text)).partition("#")[0]


def normalize_url(url: str) -> str:
    """One spelling per address: lower-case host, no default port, no user, no fragment."""
    parts = split_url(url)
    host = (parts.hostname or "").lower()
    netloc = f"[{host}]" if ":" in host else host
    if parts.port not in (None, _PORTS.get(parts.scheme)):
        netloc += f":{parts.port}"
    return urlunsplit((parts.scheme, netloc, parts.path or "/", parts.query, ""))


def cache_key(text: str) -> str:
    """A file name that stands for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def join_url(base: str, reference: str, *, field: str) -> str:
    """The address that a document at `base` means by `reference`; raises `ForbiddenPath` if it is not for us.

    The result is http or https, is not less safe than `base`, and carries the credentials of `base` on the same
    server only.
    """
    try:
        url = urljoin(base, reference)
    except ValueError:
        raise InvalidArgument(field, f"{redact(reference)!r} is not a web address") from None
    check_redirect(base, url, field=field)
    target, origin = split_url(url), split_url(base)
    if (target.scheme, target.hostname, target.port) != (origin.scheme, origin.hostname, origin.port):
        return url
    return urlunsplit(target._replace(netloc=origin.netloc, fragment=""))


def check_redirect(base: str, url: str, *, field: str) -> None:
    """Raises `ForbiddenPath` for a step from `base` to an address that is not web, or from https down to http."""
    scheme = split_url(url).scheme
    if scheme not in _PORTS or not split_url(url).hostname:
        raise ForbiddenPath(f"{field}: {redact(url)!r} is not an http or https address")
    if scheme == "http" and split_url(base).scheme == "https":
        raise ForbiddenPath(f"{field}: {redact(url)!r} leads from https down to http; use https")


def _invalid_url(url: str, reason: str) -> InvalidArgument:
    address = redact(re.sub(r"\s", "%20", url))
    hint = "in user names and passwords write / ? # @ as %2F %3F %23 %40"
    return InvalidArgument("source", f"{address!r} is not a web address: {reason}; {hint}")


def _redact_user(found: re.Match[str]) -> str:
    authority, rest = found.groups()
    if "@" not in rest or _HOST.fullmatch(authority):
        return authority.rpartition("@")[2] + rest
    return f"...@{rest.rpartition('@')[2]}"


_RECORD = "record.json"
_SUPERSEDED_AFTER = 3600.0


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """The answer of a server: the digest of its body, and what the server said about it."""

    sha256: str
    size: int
    url: str
    etag: str = ""
    last_modified: str = ""
    content_type: str = ""


class DownloadCache:
    """One directory per address, with a record and the body under its digest.

    The record is replaced in one step, after the body has arrived, so a reader sees one complete answer.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def body_path(self, url: str, kept: CachedResponse) -> Path:
        """The file with the bytes."""
        return self._entry_directory(url) / kept.sha256

    def find(self, url: str) -> CachedResponse | None:
        """The last complete answer, or None. Its body stays for an hour, whatever arrives in the meantime."""
        with try_lock_directory(self._entry_directory(url)) as has_lock:
            kept = self._read_record(url)
            if kept and has_lock:
                with suppress(OSError):
                    os.utime(self.body_path(url, kept))
            return kept if kept and _file_size(self.body_path(url, kept)) == kept.size else None

    @contextmanager
    def temporary_file(self, url: str) -> Generator[Path]:
        """An empty file for a body that is on its way; it is gone at the end unless `keep` took it."""
        handle, name = tempfile.mkstemp(prefix=".arriving-", dir=make_private(self._entry_directory(url)))
        os.close(handle)
        try:
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)

    def store(self, url: str, arrived: Path, kept: CachedResponse) -> None:
        """Make a complete body the answer for this address; others that nobody asked for during an hour go."""
        place = self._entry_directory(url)
        arrived.replace(place / kept.sha256)
        replace_file(place / _RECORD, json.dumps(asdict(kept)).encode())
        remove_unused(place, after=_SUPERSEDED_AFTER, keep=frozenset((_RECORD, kept.sha256)))

    def _read_record(self, url: str) -> CachedResponse | None:
        try:
            record: object = json.loads((self._entry_directory(url) / _RECORD).read_bytes())
        except (OSError, ValueError):
            return None
        return _parse_record(record)

    def _entry_directory(self, url: str) -> Path:
        return self._directory / cache_key(normalize_url(url))


def _file_size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _parse_record(record: object) -> CachedResponse | None:
    if not isinstance(record, dict):
        return None
    fields = cast("dict[str, object]", record)
    size = fields.pop("size", None)
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    known = {"sha256", "url", "etag", "last_modified", "content_type"}
    if not isinstance(size, int) or texts.keys() != known:
        return None
    return CachedResponse(size=size, **texts)
