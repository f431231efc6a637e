"""What a user writes as a source, and the source it means.

The modules of the sources are imported when one is asked for: a folder on this machine needs neither HTTP nor archives.
"""

import os
import re
from pathlib import Path

from openskills.catalog.root import Source
from openskills.catalog.sources.local import LocalSource
from openskills.errors import InvalidArgument
from openskills.settings import Settings

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_PIN = re.compile(r"(.*)#sha256=([^#]*)")
_UNDERSTOOD = (
    "a folder, a SKILL.md, a .zip or .tar.gz file, an http(s) address of an archive, a SKILL.md or an index.json, "
    "git+https://, git+ssh://, git+file://, package:NAME, packages:"
)


def parse_source(text: str | os.PathLike[str], settings: Settings) -> Source:
    """The source that a user means; nothing is read or fetched yet.

    Raises `InvalidArgument` for what cannot be one, with a list of what is understood.
    """
    written = os.fspath(text)
    if not written.strip() or "\0" in written or not _is_valid_name(written):
        from openskills.catalog.sources.cache import redact as shown

        raise InvalidArgument("source", f"{shown(written)!r} is no source; understood are {_UNDERSTOOD}")
    if isinstance(text, str) and ":" in text:
        return _parse_scheme(text, settings)
    return _local_source(*_split_pin(written), settings)


def _parse_scheme(text: str, settings: Settings) -> Source:
    from openskills.catalog.sources.git import is_git_address as is_git
    from openskills.catalog.sources.git import parse_git

    if is_git(text):
        from openskills.catalog.sources.git import GitSource

        return GitSource(parse_git(text), settings)
    if text.startswith(("package:", "packages:")):
        return _package_source(text)
    address, pin = _split_pin(text)
    scheme = _SCHEME.match(address)
    if not scheme:
        return _local_source(address, pin, settings)
    return _address_source(scheme[1].lower(), address, pin, settings)


def _package_source(text: str) -> Source:
    from openskills.catalog.sources.local import PackageSource, PackagesSource

    return PackagesSource() if text == "packages:" else PackageSource(text.partition(":")[2])


def _address_source(scheme: str, address: str, pin: str | None, settings: Settings) -> Source:
    from openskills.catalog.sources.cache import redact as shown
    from openskills.catalog.sources.cache import split_url as split

    parts = split(address)
    if scheme == "file":
        return _local_source(_file_path(address), pin, settings)
    if scheme not in ("http", "https"):
        raise InvalidArgument("source", f"{shown(address)!r}: {scheme}:// is not known; understood are {_UNDERSTOOD}")
    if "@" in parts.fragment:
        raise InvalidArgument("source", f"{shown(address)!r}: has a # before an @; in a password write # as %23")
    if not parts.hostname:
        raise InvalidArgument("source", f"{shown(address)!r} has no host")
    from openskills.catalog.sources.web import WebSource

    return WebSource(parts._replace(fragment="").geturl(), settings.skills_cache_dir, pin)


def _split_pin(text: str) -> tuple[str, str | None]:
    found = _PIN.fullmatch(text)
    if not found:
        return text, None
    if not re.fullmatch(r"[0-9a-fA-F]{64}", found[2]):
        raise InvalidArgument("source", f"{found[2]!r} is no pin; write #sha256= and 64 hex digits")
    return found[1], found[2].lower()


def _file_path(address: str) -> str:
    from urllib.parse import unquote, urlsplit

    from openskills.catalog.sources.cache import redact as shown

    parts = urlsplit(address)
    path = unquote(parts.path)
    if parts.hostname not in (None, "localhost") or not path or "\0" in path:
        raise InvalidArgument("source", f"{shown(address)!r} names no file on this machine; write file:///path")
    return path


def _local_source(text: str, pin: str | None, settings: Settings) -> Source:
    # Not `expanduser`: the home of these settings counts, not that of the process.
    path = settings.home / text[2:] if text == "~" or text.startswith("~/") else Path(text)
    try:
        return LocalSource(path.absolute(), text, settings.skills_cache_dir, pin)
    except FileNotFoundError:
        raise InvalidArgument("source", f"{text!r}: the current directory is gone; use an absolute path") from None


def _is_valid_name(text: str) -> bool:
    """Whether the system can take a text for a name: half a character it cannot."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
