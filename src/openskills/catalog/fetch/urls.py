"""Web addresses: taken apart, compared, joined, and shown without what is secret in them."""

import hashlib
import re
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from openskills.errors import ForbiddenPath, InvalidArgument

_ADDRESS = re.compile(r"(?<=://)([^/?#\s]*)(\S*)")
_HOST = re.compile(r"localhost|(?:[\w-]+\.)+[\w-]+")
_QUERY = re.compile(r"\?[^#\s]*")
_PORTS = {"http": 80, "https": 443}


def split(url: str) -> SplitResult:
    """The parts of an address; raises `InvalidArgument`, without secrets, for what is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # The reason of the library repeats a piece of the address, which may be a piece of a password.
        raise _malformed(url, "its host or port is malformed") from None
    if not url.isprintable() or " " in url:
        raise _malformed(url, "it has spaces or control characters; write a space as %20")
    labels = (parts.hostname or "-").removesuffix(".").split(".")
    if not all(0 < len(label) < 64 for label in labels):
        raise _malformed(url, "the parts of the host's name must have 1 to 63 characters")
    return parts


def shown(text: str) -> str:
    """The text with user names, passwords, queries and fragments of addresses taken out.

    A password with a `/`, `?` or `#` in it looks like the rest of an address. So where an `@` comes late, everything
    before it is taken out, unless the address begins with the full name of a host.
    """
    return _QUERY.sub("?...", _ADDRESS.sub(_without_user, text)).partition("#")[0]


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
    except ValueError:
        raise InvalidArgument(field, f"{shown(reference)!r} is not a web address") from None
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


def _malformed(url: str, reason: str) -> InvalidArgument:
    address = shown(re.sub(r"\s", "%20", url))
    hint = "in user names and passwords write / ? # @ as %2F %3F %23 %40"
    return InvalidArgument("source", f"{address!r} is not a web address: {reason}; {hint}")


def _without_user(found: re.Match[str]) -> str:
    authority, rest = found.groups()
    if "@" not in rest or _HOST.fullmatch(authority):
        return authority.rpartition("@")[2] + rest
    return f"...@{rest.rpartition('@')[2]}"
