"""The address of a server, as it may be shown. Pure."""

import re
from urllib.parse import urlsplit


def place_of(url: str) -> str:
    """An address without user, password and options: `postgresql://host:5432/database`.

    Of an address that cannot be taken apart without doubt only the scheme is left: a password with `/`, `?`, `#` or
    `@` in it looks like the rest of an address.
    """
    scheme, found, rest = url.partition("://")
    if not found or not re.fullmatch(r"[a-z][a-z0-9+.-]{0,20}", scheme):
        return "(an address that is none)"
    hidden = f"{scheme}://…"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return hidden
    if rest.count("@") > 1 or "@" in f"{parts.path}{parts.query}{parts.fragment}":
        return hidden
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}{f':{port}' if port else ''}{parts.path}"
