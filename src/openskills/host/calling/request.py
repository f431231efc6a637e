"""What a client of the host sends: addresses, headers and bodies that nothing in them can bend. Pure.

Paths always begin with a slash. `echo:invoke` alone is, for every library that joins addresses, the scheme `echo`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit

from openskills.errors import InvalidArgument

_LONGEST_ID = 200
_VISIBLE = re.compile(r"[\x21-\x7e]{1,4096}")


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. What is `repeatable` does no harm when it arrives twice."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bytes | None = None
    repeatable: bool = False


def base_of(url: str, *, name: str) -> str:
    """The address of a host without the slash at its end; `name` says where it comes from.

    Raises `InvalidArgument` for what is no http(s) address, and for one with a password, a query or a fragment.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise InvalidArgument(name, "is no address; write http://127.0.0.1:8000") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or not url.strip().isprintable():
        raise InvalidArgument(name, f"{url!r} is no address of a host; write http://127.0.0.1:8000")
    if parts.username is not None or parts.password is not None:
        raise InvalidArgument(name, "has a user or a password in it; set OPENSKILL_API_KEY instead")
    if parts.query or parts.fragment:
        raise InvalidArgument(name, f"{url!r} has a query or a fragment; write http://127.0.0.1:8000")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def is_local(url: str) -> bool:
    """Whether an address leads to this machine and no further."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def skill_path(skill_id: str, verb: str = "") -> str:
    """`/skills/ID`, or `/skills/ID:verb`. Raises `InvalidArgument` for what can be no id."""
    return f"/skills/{_segment(skill_id, 'skill_id')}" + (f":{verb}" if verb else "")


def run_path(run_id: str, rest: str = "") -> str:
    """`/runs/ID`, with `:cancel` or `/events` after it. Raises `InvalidArgument` for what can be no id."""
    return f"/runs/{_segment(run_id, 'run_id')}{rest}"


def _segment(text: str, name: str) -> str:
    if not text or len(text) > _LONGEST_ID or not text.isprintable() or "/" in text or text.strip(".") == "":
        raise InvalidArgument(name, f"{text[:_LONGEST_ID]!r} is no id; ids are like file_search")
    return quote(text, safe="")


def is_sendable(text: str, most: int) -> bool:
    """Whether a header can have this text: visible ASCII, not too long."""
    return _VISIBLE.fullmatch(text) is not None and len(text) <= most


def header_value(text: str, *, name: str, most: int = 255) -> str:
    """Text for a header: visible ASCII of a bounded length. Raises `InvalidArgument` for other text."""
    if not is_sendable(text, most):
        raise InvalidArgument(name, f"{text[:_LONGEST_ID]!r} cannot be sent; use up to {most} visible ASCII characters")
    return text


def bearer(api_key: str) -> str:
    """The header of a key. Raises `InvalidArgument`, which does not repeat it."""
    if not _VISIBLE.fullmatch(api_key):
        raise InvalidArgument("api_key", "has characters that no key has; `openskills keys new` makes one")
    return f"Bearer {api_key}"


def body_of(input: Mapping[str, Any]) -> bytes:  # noqa: A002 - the protocol calls it that
    """The body of an invocation. Raises `InvalidArgument` for an input that is no JSON object."""
    if not isinstance(input, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise InvalidArgument("input", f"is a {type(input).__name__}; it must be an object, such as {{'text': 'hi'}}")
    try:
        return json.dumps({"input": dict(input)}, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise InvalidArgument("input", "has half a character in it (a lone surrogate)") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument("input", f"cannot be written as JSON: {error}") from None
