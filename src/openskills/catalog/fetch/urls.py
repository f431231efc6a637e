"""Web addresses: taken apart, compared, joined, and shown without what is secret in them."""

import hashlib
import re
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from openskills.errors import ForbiddenPath, InvalidArgument

_USER = re.compile(r"(?<=://)[^/?#\s]*@")
_QUERY = re.compile(r"\?[^#\s]*")
_PORTS = {"http": 80, "https": 443}


def split(url: str) -> SplitResult:
    """The parts of an address; raises `InvalidArgument`, without secrets, for what is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InvalidArgument("source", f"{shown(url)!r} is not a web address: {error}") from None
    if not url.isprintable() or " " in url:
        raise InvalidArgument("source", f"{shown(url)!r} has spaces or control characters; write them as %20")
    return parts


def shown(text: str) -> str:
    """The text with user names, passwords, queries and fragments of addresses taken out."""
    return _QUERY.sub("?...", _USER.sub("", text)).partition("#")[0]


def plain(url: str) -> str:
    """One spelling per address: lower-case host, no default port, no user, no fragment."""
    parts = split(url)
    host = (parts.hostname or "").lower()
    netloc = f"[{host}]" if ":" in host else host
    if parts.port not in (None, _PORTS.get(parts.scheme)):
        netloc += f":{parts.port}"
    return urlunsplit((parts.scheme, netloc, parts.path or "/", parts.query, ""))


def key(text: str) -> str:
    """A file name that stands for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def join(base: str, reference: str, *, field: str) -> str:
    """The address that a document at `base` means by `reference`; raises `ForbiddenPath` if it is not for us.

    The result is http or https, is not less safe than `base`, and carries the credentials of `base` on the same
    server only.
    """
    try:
        url = urljoin(base, reference)
    except ValueError as error:
        raise InvalidArgument(field, f"{shown(reference)!r} is not a web address: {error}") from None
    allow(base, url, field=field)
    target, origin = split(url), split(base)
    if (target.scheme, target.hostname, target.port) != (origin.scheme, origin.hostname, origin.port):
        return url
    return urlunsplit(target._replace(netloc=origin.netloc, fragment=""))


def allow(base: str, url: str, *, field: str) -> None:
    """Raises `ForbiddenPath` for a step from `base` to an address that is not web, or from https down to http."""
    scheme = split(url).scheme
    if scheme not in _PORTS or not split(url).hostname:
        raise ForbiddenPath(f"{field}: {shown(url)!r} is not an http or https address")
    if scheme == "http" and split(base).scheme == "https":
        raise ForbiddenPath(f"{field}: {shown(url)!r} leads from https down to http; use https")
