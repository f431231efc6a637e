"""What callers send, read strictly: one meaning for every body, or a refusal that says what is wrong. Pure.

orjson refuses NaN, infinities, lone surrogates, text that is no UTF-8 and what follows the document. It keeps the last
of two equal keys and rounds integers beyond 64 bits, until they are as large as infinity; both are looked for here.
"""

import json
import re
from itertools import accumulate
from typing import Any, cast

import orjson

from openskills.errors import InvalidArgument, UnsupportedMedia

DEEPEST = 64
"""Levels of objects and lists in a body."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_LONG_INTEGER = re.compile(rb"\d{19}")
_HUGE_INTEGER = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|(?<![\d.eE+-])-?[1-9]\d{299,}(?![\d.eE])', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_PLAIN_JSON = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})


def is_json(content_type: bytes | None) -> bool:
    """Whether a content type is JSON in UTF-8."""
    if content_type in _PLAIN_JSON:
        return True
    kind, *parameters = (part.strip().lower() for part in (content_type or b"").split(b";"))
    charsets = [part.partition(b"=")[2].strip(b'" ') for part in parameters if part.startswith(b"charset")]
    return kind == b"application/json" and all(charset in {b"utf-8", b"utf8"} for charset in charsets)


def require_json(content_type: bytes | None) -> None:
    """Raises `UnsupportedMedia` for a body that does not say it is JSON."""
    if not is_json(content_type):
        found = (content_type or b"").decode("latin-1")[:100]
        said = f"the content type is {found!r}" if found else "there is no content type"
        raise UnsupportedMedia(f"{said}; send JSON with the header Content-Type: application/json")


def read_json(body: bytes) -> Any:
    """The value of a body. Raises `InvalidArgument` that says where and what is wrong."""
    value = _parsed(body)
    skeleton = _STRING.sub(b"", body)
    if skeleton.count(b"[") + skeleton.count(b"{") > DEEPEST and _depth(skeleton) > DEEPEST:
        raise InvalidArgument("body", f"is nested more than {DEEPEST} levels deep")
    if _members_short_of(value, skeleton.count(b":")):
        raise InvalidArgument("body", f"has the key {_first_duplicate(body)!r} twice in one object")
    # A number with so many digits may be an integer that orjson has rounded.
    return _exact(body) if _LONG_INTEGER.search(skeleton) else value


def read_input(body: bytes) -> dict[str, Any]:
    """The input of an invocation from its body, `{"input": {...}}`. Raises `InvalidArgument`."""
    value = read_json(body)
    if not isinstance(value, dict):
        raise InvalidArgument("body", f"is {_named(value)}; send an object: {_SHAPE}")
    document = cast("dict[str, Any]", value)
    for name in document:
        if name != "input":
            raise InvalidArgument(_shown(name), f"is no field of an invocation; send {_SHAPE}")
    if "input" not in document:
        raise InvalidArgument("input", f"is missing; send {_SHAPE}")
    found = document["input"]
    if not isinstance(found, dict):
        raise InvalidArgument("input", f"is {_named(found)}; it must be an object")
    return cast("dict[str, Any]", found)


_SHAPE = '{"input": {...}}'


def _parsed(body: bytes) -> Any:
    """The value, as orjson sees it: large integers are rounded, and what is as large as infinity is 0."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        failure = error
    shorter = _HUGE_INTEGER.sub(lambda found: found[1] or b"0", body)
    if shorter != body:
        try:
            return orjson.loads(shorter)
        except orjson.JSONDecodeError as error:
            failure = error
    raise InvalidArgument("body", f"is no JSON: {_told(failure, body)}")


def _told(error: orjson.JSONDecodeError, body: bytes) -> str:
    if not body:
        return f"the body is empty; send {_SHAPE}"
    return str(error)[:300]


def _exact(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise InvalidArgument("body", "has an integer with more than 4,300 digits") from None


def _depth(skeleton: bytes) -> int:
    steps = skeleton.translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0)


def _members_short_of(value: Any, members: int) -> bool:
    """Whether a value has fewer members of objects than its text had colons: then some were equal."""
    found = 0
    waiting: list[Any] = [value]
    while found < members and waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            fields = cast("dict[str, Any]", part)
            found += len(fields)
            waiting.extend(item for item in fields.values() if _holds_more(item))
        elif isinstance(part, list):
            waiting.extend(item for item in cast("list[Any]", part) if _holds_more(item))
    return found < members


def _holds_more(value: Any) -> bool:
    return isinstance(value, dict | list)


def _first_duplicate(body: bytes) -> str:
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                found.append(name)
            seen.add(name)

    # Numbers are nothing to it, however long they are.
    json.loads(body, object_pairs_hook=look, parse_int=str)
    return _shown(found[0]) if found else ""


def _shown(name: str) -> str:
    return name if len(name) <= 100 else f"{name[:100]}…"


def _named(value: object) -> str:
    if value is None:
        return "null"
    words: dict[type, str] = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return words.get(type(value), "an object")
