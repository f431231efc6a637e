"""The cache of sources: unpacked archives by content, downloads by URL, and URLs without secrets for messages."""

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
from typing import IO
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from openskills.catalog.skill import SKILL_FILE
from openskills.catalog.sources.archive import ARCHIVE_SUFFIXES, is_plain_name, unpack
from openskills.errors import ForbiddenPath, InvalidArgument, InvalidSkill, LimitExceeded, SourceUnavailable
from openskills.filesystem import (
    MONTH,
    TEMPORARY_PREFIX,
    find_folder,
    make_private,
    remove_unused,
    replace_directory,
    replace_file,
    scratch_directory,
    try_lock_directory,
)
from openskills.skillmd.parse import parse

_HEAD = 65536
_CHUNK = 1 << 20
_MAX_ARCHIVE = 512 << 20


def has_archive_suffix(name: str) -> bool:
    return name.lower().endswith(ARCHIVE_SUFFIXES)


def place_archive(archive: Path, sha256: str, cache: Path, *, name: str) -> Path:
    """Unpack an archive into the cache and return the folder. `name` is its name in messages.

    For an archive with a SKILL.md at its root, the folder is named like the skill, as the specification requires. The
    digest of `archive` must be `sha256`, and no other process may write to it.
    """
    return _create_folder(cache / "archives", sha256, name, lambda content: unpack(archive, content, label=name))


def find_archive(sha256: str, cache: Path, *, name: str) -> Path | None:
    """The folder of an archive with this digest, if it is in the cache."""
    return _find_folder(cache / "archives", sha256, name)


def place_skill_file(file: Path, sha256: str, cache: Path, *, name: str) -> Path:
    """A folder in the cache with this SKILL.md only."""

    def fill(content: Path) -> None:
        content.mkdir(mode=0o755)
        shutil.copyfile(file, content / SKILL_FILE)

    return _create_folder(cache / "files", sha256, name, fill)


@contextmanager
def private_copy(file: IO[bytes], cache: Path, *, name: str) -> Generator[tuple[Path, str]]:
    """A private copy and its digest, so that the bytes that are checked are the bytes that are unpacked."""
    digest, count = hashlib.sha256(), 0
    with scratch_directory(cache / "archives") as directory:
        copy = directory / "archive"
        with copy.open("wb") as target:
            while chunk := file.read(_CHUNK):
                count += len(chunk)
                if count > _MAX_ARCHIVE:
                    raise LimitExceeded(f"{name}: larger than {_MAX_ARCHIVE:,} bytes, the limit for an archive")
                digest.update(chunk)
                target.write(chunk)
        yield copy, digest.hexdigest()


def check_pin(label: str, sha256: str, pin: str | None) -> None:
    """Raise `InvalidSkill` if content is pinned to another digest."""
    if pin is not None and sha256 != pin:
        raise InvalidSkill(f"{label}: sha256 is {sha256}, expected {pin}; it was not used")


def folder_name(content: Path, fallback: str) -> str:
    """The name for a folder: that of its skill, else `fallback`, else "skills"."""
    return _read_skill_name(content) or _safe_name(fallback)


def strip_archive_suffix(name: str) -> str:
    return next((name[: -len(one)] for one in ARCHIVE_SUFFIXES if name.lower().endswith(one)), name)


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
            # A folder that is named after its archive is not shared with the same bytes under another name.
            with replace_directory(parent / (sha256 if own else f"{sha256}-{fallback}")) as place:
                content.rename(place / (own or fallback))
        folder = _find_folder(parent, sha256, name)
    if not folder:
        raise SourceUnavailable(f"{name}: contains no files")
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
    """The parts of a URL; raises `InvalidArgument`, without secrets in the message, for an invalid one."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # The message of the library repeats a part of the URL, which may contain the password.
        raise _invalid_url(url, "invalid host or port") from None
    if not url.isprintable() or " " in url:
        raise _invalid_url(url, "contains spaces or control characters; write a space as %20")
    labels = (parts.hostname or "-").removesuffix(".").split(".")
    if not all(0 < len(label) < 64 for label in labels):
        raise _invalid_url(url, "each label of the host name must have 1 to 63 characters")
    return parts


def redact(text: str) -> str:
    """Remove user names, passwords, queries and fragments of URLs from a text.

    A password with a `/`, `?` or `#` looks like the rest of a URL, so everything before a late `@` is removed, unless
    the URL starts with a full host name.
    """
    return _QUERY.sub("?...", _ADDRESS.sub(_redact_user, text)).partition("#")[0]


def normalize_url(url: str) -> str:
    """One spelling per URL: lower-case host, no default port, no user, no fragment."""
    parts = split_url(url)
    host = (parts.hostname or "").lower()
    netloc = f"[{host}]" if ":" in host else host
    if parts.port not in (None, _PORTS.get(parts.scheme)):
        netloc += f":{parts.port}"
    return urlunsplit((parts.scheme, netloc, parts.path or "/", parts.query, ""))


def cache_key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def join_url(base: str, reference: str, *, field: str) -> str:
    """Resolve `reference` against `base`; raises `ForbiddenPath` for a forbidden URL.

    The result is http or https, not less secure than `base`, and has the credentials of `base` on the same server only.
    """
    try:
        url = urljoin(base, reference)
    except ValueError:
        raise InvalidArgument(field, f"invalid URL {redact(reference)!r}") from None
    check_redirect(base, url, field=field)
    target, origin = split_url(url), split_url(base)
    if (target.scheme, target.hostname, target.port) != (origin.scheme, origin.hostname, origin.port):
        return url
    return urlunsplit(target._replace(netloc=origin.netloc, fragment=""))


def check_redirect(base: str, url: str, *, field: str) -> None:
    """Raise `ForbiddenPath` if `url` is not http or https, or leads from https to http."""
    scheme = split_url(url).scheme
    if scheme not in _PORTS or not split_url(url).hostname:
        raise ForbiddenPath(f"{field}: {redact(url)!r} is not an http or https URL")
    if scheme == "http" and split_url(base).scheme == "https":
        raise ForbiddenPath(f"{field}: {redact(url)!r} downgrades from https to http; use https")


def _invalid_url(url: str, reason: str) -> InvalidArgument:
    address = redact(re.sub(r"\s", "%20", url))
    hint = "in user names and passwords write / ? # @ as %2F %3F %23 %40"
    return InvalidArgument("source", f"invalid URL {address!r}: {reason}; {hint}")


def _redact_user(found: re.Match[str]) -> str:
    authority, rest = found.groups()
    if "@" not in rest or _HOST.fullmatch(authority):
        return authority.rpartition("@")[2] + rest
    return f"...@{rest.rpartition('@')[2]}"


_RECORD = "record.json"
_SUPERSEDED_AFTER = 3600.0


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """A cached HTTP response: the digest and size of its body, and its headers."""

    sha256: str
    size: int
    url: str
    etag: str = ""
    last_modified: str = ""
    content_type: str = ""


class DownloadCache:
    """One directory per URL, with a record and the body under its digest.

    The record is replaced atomically after the body is complete, so a reader sees one complete response.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def body_path(self, url: str, cached: CachedResponse) -> Path:
        return self._entry_directory(url) / cached.sha256

    def find(self, url: str) -> CachedResponse | None:
        """The last complete response, or None. Its body is kept for at least an hour."""
        with try_lock_directory(self._entry_directory(url)) as has_lock:
            cached = self._read_record(url)
            if cached is None:
                return None
            path = self.body_path(url, cached)
            if has_lock:
                with suppress(OSError):
                    os.utime(path)
            try:
                return cached if path.stat().st_size == cached.size else None
            except OSError:
                return None

    @contextmanager
    def temporary_file(self, url: str) -> Generator[Path]:
        """An empty file for a body; it is removed at the end unless `store` moved it."""
        handle, name = tempfile.mkstemp(prefix=TEMPORARY_PREFIX, dir=make_private(self._entry_directory(url)))
        os.close(handle)
        try:
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)

    def store(self, url: str, body: Path, response: CachedResponse) -> None:
        """Store a complete body for this URL; older ones that were not used for an hour are removed."""
        place = self._entry_directory(url)
        body.replace(place / response.sha256)
        replace_file(place / _RECORD, json.dumps(asdict(response)).encode())
        remove_unused(place, after=_SUPERSEDED_AFTER, keep=frozenset((_RECORD, response.sha256)))

    def _read_record(self, url: str) -> CachedResponse | None:
        try:
            record = CachedResponse(**json.loads((self._entry_directory(url) / _RECORD).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        is_valid = all(isinstance(value, int if name == "size" else str) for name, value in asdict(record).items())
        return record if is_valid else None

    def _entry_directory(self, url: str) -> Path:
        return self._directory / cache_key(normalize_url(url))
