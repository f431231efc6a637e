"""What a user writes as a source, and the source it means.

The modules of the sources are imported when one is asked for: a folder on this machine needs neither HTTP nor archives.
"""

import os
import re
from pathlib import Path

from openskills.catalog.fetch.local import LocalSource
from openskills.catalog.root import Source
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
    if not written.strip() or "\0" in written or not _is_name(written):
        from openskills.catalog.fetch.urls import shown

        raise InvalidArgument("source", f"{shown(written)!r} is no source; understood are {_UNDERSTOOD}")
    if isinstance(text, str) and ":" in text:
        return _with_colon(text, settings)
    return _local(*_pinned(written), settings)


def _with_colon(text: str, settings: Settings) -> Source:
    from openskills.catalog.fetch.git_address import is_git, parse_git

    if is_git(text):
        from openskills.catalog.fetch.git import GitSource

        return GitSource(parse_git(text), settings)
    if text.startswith(("package:", "packages:")):
        return _package(text)
    address, pin = _pinned(text)
    scheme = _SCHEME.match(address)
    if not scheme:
        return _local(address, pin, settings)
    return _address(scheme[1].lower(), address, pin, settings)


def _package(text: str) -> Source:
    from openskills.catalog.fetch.packages import PackageSource, PackagesSource

    return PackagesSource() if text == "packages:" else PackageSource(text.partition(":")[2])


def _address(scheme: str, address: str, pin: str | None, settings: Settings) -> Source:
    from openskills.catalog.fetch.urls import shown, split

    parts = split(address)
    if scheme == "file":
        return _local(_file_path(address), pin, settings)
    if scheme not in ("http", "https"):
        raise InvalidArgument("source", f"{shown(address)!r}: {scheme}:// is not known; understood are {_UNDERSTOOD}")
    if "@" in parts.fragment:
        raise InvalidArgument("source", f"{shown(address)!r}: has a # before an @; in a password write # as %23")
    if not parts.hostname:
        raise InvalidArgument("source", f"{shown(address)!r} has no host")
    from openskills.catalog.fetch.web import WebSource

    return WebSource(parts._replace(fragment="").geturl(), settings.skills_cache_dir, pin)


def _pinned(text: str) -> tuple[str, str | None]:
    found = _PIN.fullmatch(text)
    if not found:
        return text, None
    if not re.fullmatch(r"[0-9a-fA-F]{64}", found[2]):
        raise InvalidArgument("source", f"{found[2]!r} is no pin; write #sha256= and 64 hex digits")
    return found[1], found[2].lower()


def _file_path(address: str) -> str:
    from urllib.parse import unquote, urlsplit

    from openskills.catalog.fetch.urls import shown

    parts = urlsplit(address)
    path = unquote(parts.path)
    if parts.hostname not in (None, "localhost") or not path or "\0" in path:
        raise InvalidArgument("source", f"{shown(address)!r} names no file on this machine; write file:///path")
    return path


def _local(text: str, pin: str | None, settings: Settings) -> Source:
    # Not `expanduser`: the home of these settings counts, not that of the process.
    path = settings.home / text[2:] if text == "~" or text.startswith("~/") else Path(text)
    try:
        return LocalSource(path.absolute(), text, settings.skills_cache_dir, pin)
    except FileNotFoundError:
        raise InvalidArgument("source", f"{text!r}: the current directory is gone; use an absolute path") from None


def _is_name(text: str) -> bool:
    """Whether the system can take a text for a name: half a character it cannot."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
