"""Where a provider is, and with what we come in; checked before anything is sent. Pure."""

import re
from collections.abc import Mapping

import httpx2

from openskills.errors import InvalidArgument, Unauthorized

_SECRET = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)


def checked_url(text: str) -> httpx2.URL:
    """The base URL of a server. Raises `InvalidArgument`; what stands before an `@` in it is not repeated."""
    try:
        url = httpx2.URL(text.strip())
    except httpx2.InvalidURL as error:
        raise InvalidArgument("base_url", f"is no URL: {error}") from None
    if url.scheme not in {"http", "https"} or not url.host:
        shown = text.strip().rpartition("@")[2]
        raise InvalidArgument("base_url", f"{shown!r} does not begin with http:// or https:// and a host")
    return url


def place_of(url: httpx2.URL) -> str:
    """The host of a URL, with its port when it is no usual one; nothing of it is secret."""
    return url.host if url.port is None else f"{url.host}:{url.port}"


def secrets_in(headers: Mapping[str, str]) -> list[str]:
    """Values of headers that by their names are for nobody else's eyes."""
    return [value for name, value in headers.items() if _SECRET.search(name)]


def checked_key(text: str | None, variable: str) -> str:
    """The key without blanks around it; empty when there is none. Raises `Unauthorized` for what cannot be a key.

    HTTP could not send such a key, and would complain in words that contain it.
    """
    key = (text or "").strip()
    if not all("!" <= char <= "~" for char in key):
        raise Unauthorized(f"the key ({variable}) has blanks or characters in it that no key has; copy it once more")
    return key
