"""Parse the text of a source, such as a path, a URL or `package:NAME`.

The modules of the sources are imported on demand: a local folder needs neither HTTP nor archives.
"""

import os
import re
from pathlib import Path
from typing import cast
from urllib.parse import unquote

from openskills.arguments import find_plugin
from openskills.catalog.root import Source
from openskills.catalog.sources.local import LocalSource, PackageSource, PackagesSource
from openskills.errors import InvalidArgument
from openskills.settings import Settings

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_PIN = re.compile(r"(.*)#sha256=([^#]*)")
_SKILL_URI = re.compile(r"(.*)#([A-Za-z][A-Za-z0-9+.-]*://[^#]*/SKILL\.md)")
_MARKETPLACE = "marketplace.json"
_SUPPORTED = (
    "a folder, a SKILL.md, a .zip or .tar.gz file, a marketplace.json, an http(s) URL of one of them or an index.json, "
    "git+https://, git+ssh://, git+file://, package:NAME, packages:, mcp+https://HOST/PATH, mcp:COMMAND"
)


def parse_source(text: str | os.PathLike[str], settings: Settings, *, trusted: bool = False) -> Source:
    """The source that a text means; nothing is read or fetched yet. `trusted` uses the skills of a server unasked.

    Schemes (`NAME://`) other than the built-in ones are entry points in the group `openskills.sources`.
    Raises `InvalidArgument` for an invalid source, with a list of the supported forms.
    """
    written = os.fspath(text)
    if not written.strip() or "\0" in written or not _is_valid_name(written):
        from openskills.catalog.sources.cache import redact

        raise InvalidArgument("source", f"invalid source {redact(written)!r}; use {_SUPPORTED}")
    if isinstance(text, str) and ":" in text:
        return _parse_scheme(text, settings, trusted=trusted)
    return _local_source(*_split_pin(written), settings)


def is_server_address(text: str) -> bool:
    return text.startswith(("mcp:", "mcp+http://", "mcp+https://"))


def _parse_scheme(text: str, settings: Settings, *, trusted: bool) -> Source:
    if is_server_address(text):
        from openskills.catalog.sources.mcp import McpSource
        from openskills.catalog.sources.mcp_client import parse_mcp_address

        address, pin = _split_pin(text)
        one = _SKILL_URI.fullmatch(address)
        server = parse_mcp_address(one[1] if one else address, settings)
        return McpSource(server, settings, uri=one[2] if one else "", pin=pin, trusted=trusted)
    from openskills.catalog.sources.git import GitSource, is_git_address, parse_git

    if is_git_address(text):
        return GitSource(parse_git(text), settings)
    if text.startswith(("package:", "packages:")):
        return PackagesSource() if text == "packages:" else PackageSource(text.partition(":")[2])
    address, pin = _split_pin(text)
    scheme = _SCHEME.match(address)
    if not scheme:
        return _local_source(address, pin, settings)
    is_known = scheme[1].lower() in ("file", "http", "https")
    plugin = None if is_known else find_plugin("openskills.sources", scheme[1].lower(), "source")
    if plugin is not None:
        return cast("Source", plugin(text, settings))
    return _address_source(scheme[1].lower(), address, pin, settings)


def _address_source(scheme: str, address: str, pin: str | None, settings: Settings) -> Source:
    from openskills.catalog.sources.cache import redact, split_url

    parts = split_url(address)
    if scheme == "file":
        path = unquote(parts.path)
        if parts.hostname not in (None, "localhost") or not path or "\0" in path:
            raise InvalidArgument("source", f"{redact(address)!r} is not a local file; write file:///path")
        return _local_source(path, pin, settings)
    if scheme not in ("http", "https"):
        raise InvalidArgument("source", f"{redact(address)!r}: unknown scheme {scheme}://; use {_SUPPORTED}")
    if "@" in parts.fragment:
        raise InvalidArgument("source", f"{redact(address)!r}: has a # before an @; in a password write # as %23")
    if not parts.hostname:
        raise InvalidArgument("source", f"{redact(address)!r} has no host")
    if parts.path.endswith(f"/{_MARKETPLACE}"):
        from openskills.catalog.sources.plugin import MarketplaceSource

        url = parts._replace(fragment="").geturl()
        return MarketplaceSource(url, redact(url), settings, pin)
    from openskills.catalog.sources.web import WebSource

    return WebSource(parts._replace(fragment="").geturl(), settings.skills_cache_dir, pin)


def _split_pin(text: str) -> tuple[str, str | None]:
    found = _PIN.fullmatch(text)
    if not found:
        return text, None
    if not re.fullmatch(r"[0-9a-fA-F]{64}", found[2]):
        raise InvalidArgument("source", f"invalid pin {found[2]!r}; write #sha256= and 64 hex digits")
    return found[1], found[2].lower()


def _local_source(text: str, pin: str | None, settings: Settings) -> Source:
    # Not `expanduser`: the home of the settings counts, not that of the process.
    path = settings.home / text[2:] if text == "~" or text.startswith("~/") else Path(text)
    try:
        if path.name == _MARKETPLACE and path.is_file() and pin is None:
            from openskills.catalog.sources.plugin import MarketplaceSource

            return MarketplaceSource(str(path.absolute()), text, settings)
        return LocalSource(path.absolute(), text, settings.skills_cache_dir, pin)
    except FileNotFoundError:
        raise InvalidArgument("source", f"{text!r}: the current directory was removed; use an absolute path") from None


def _is_valid_name(text: str) -> bool:
    """Whether a text can be a file name; one with a lone surrogate cannot."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
