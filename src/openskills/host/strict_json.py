"""Strict JSON: request bodies of callers, and objects in the output of skills.

orjson rejects NaN, infinities, lone surrogates, invalid UTF-8 and trailing text. It keeps the last of duplicate keys
and rounds integers beyond 64 bits; both are handled here.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NoReturn, cast

import orjson

from openskills.errors import InvalidArgument, UnsupportedMedia, shorten

MAX_DEPTH = 64
"""Nesting depth of a body."""
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_LONG_INTEGER = re.compile(rb"\d{19}")
_HUGE_INTEGER = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|(?<![\d.eE+-])-?[1-9]\d{299,}(?![\d.eE])', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_DEPTH_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_PLAIN_JSON = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})


def is_json(content_type: bytes | None) -> bool:
    """Whether a content type is JSON in UTF-8."""
    if content_type in _PLAIN_JSON:
        return True
    kind, *parameters = (part.strip().lower() for part in (content_type or b"").split(b";"))
    charsets = [part.partition(b"=")[2].strip(b'" ') for part in parameters if part.startswith(b"charset")]
    return kind == b"application/json" and all(charset in {b"utf-8", b"utf8"} for charset in charsets)


def check_json(content_type: bytes | None) -> None:
    """Raise `UnsupportedMedia` unless the content type is JSON."""
    if not is_json(content_type):
        found = (content_type or b"").decode("latin-1")[:100]
        said = f"unsupported content type {found!r}" if found else "missing content type"
        raise UnsupportedMedia(f"{said}; send JSON with the header Content-Type: application/json")


def read_json(body: bytes) -> Any:
    """Parse a body. Raises `InvalidArgument`."""
    value = _parse_body(body)
    skeleton = _STRING.sub(b"", body)
    if _is_too_deep(skeleton, MAX_DEPTH):
        raise InvalidArgument("body", f"is nested more than {MAX_DEPTH} levels deep")
    if _has_duplicates(value, skeleton.count(b":")):
        raise InvalidArgument("body", f"has the duplicate key {_find_duplicate(body)!r}")
    if not _LONG_INTEGER.search(skeleton):
        return value
    # An integer that orjson may have rounded.
    try:
        return json.loads(body)
    except ValueError:
        raise InvalidArgument("body", "has an integer with more than 4,300 digits") from None


def read_input(body: bytes) -> dict[str, Any]:
    """The input of an invocation from its body, `{"input": {...}}`. Raises `InvalidArgument`."""
    value = read_json(body)
    if not isinstance(value, dict):
        raise InvalidArgument("body", f"expected an object such as {_INPUT_EXAMPLE}, got {_describe_kind(value)}")
    document = cast("dict[str, Any]", value)
    for name in document:
        if name != "input":
            raise InvalidArgument(shorten(name), f"unknown field; send {_INPUT_EXAMPLE}")
    if "input" not in document:
        raise InvalidArgument("input", f"is missing; send {_INPUT_EXAMPLE}")
    found = document["input"]
    if not isinstance(found, dict):
        raise InvalidArgument("input", f"expected an object, got {_describe_kind(found)}")
    return cast("dict[str, Any]", found)


_INPUT_EXAMPLE = '{"input": {...}}'


def _parse_body(body: bytes) -> Any:
    """Parse with orjson: large integers are rounded, and huge ones become 0."""
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
    if not body:
        raise InvalidArgument("body", f"is empty; send {_INPUT_EXAMPLE}")
    raise InvalidArgument("body", f"not valid JSON: {str(failure)[:300]}")


def _is_too_deep(skeleton: bytes, max_depth: int) -> bool:
    """Whether a text without its strings is nested deeper than that."""
    if skeleton.count(b"[") + skeleton.count(b"{") <= max_depth:
        return False
    steps = skeleton.translate(_DEPTH_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b"))) > max_depth


def _has_duplicates(value: Any, members: int) -> bool:
    # Fewer members than colons in the text means that some keys were duplicates.
    found = 0
    waiting: list[Any] = [value]
    while found < members and waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            found += len(cast("dict[str, Any]", part))
            waiting += cast("dict[str, Any]", part).values()
        elif isinstance(part, list):
            waiting += cast("list[Any]", part)
    return found < members


def _find_duplicate(body: bytes) -> str:
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                found.append(name)
            seen.add(name)

    # Numbers of any length stay text.
    json.loads(body, object_pairs_hook=look, parse_int=str)
    return shorten(found[0]) if found else ""


_MAX_OUTPUT_DEPTH = 200
"""Nesting depth of a skill's output: orjson encodes 254 levels, and the output is embedded in others."""
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
_OBJECT_AT_LINE_START = re.compile(r"^[ \t]*(?=\{)", re.MULTILINE)
_MAX_TRIES = 200
_ObjectSpan = tuple[dict[str, Any], int, int]
_BOM = b"\xef\xbb\xbf"


class InvalidSkillJson(ValueError):
    """Output that is not a usable JSON object; the message says why."""


@dataclass(frozen=True, slots=True)
class JsonMatch:
    """A JSON object, and the text around it."""

    value: Mapping[str, Any]
    around: str = ""


def find_json_object(written: bytes) -> JsonMatch:
    """The JSON object in the output of a skill; with other text around it, the last one that is a result.

    Raises `InvalidSkillJson` if there is none, or if it contains what strict JSON does not allow.
    """
    data = written.removeprefix(_BOM)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return _find_in_text(data, error.msg)
    if not isinstance(value, dict):
        raise InvalidSkillJson(f"expected an object, got {_describe_kind(value)}")
    found = cast("dict[str, Any]", value)
    _check_text(data)
    return JsonMatch(found)


def is_result_like(value: Mapping[str, Any]) -> bool:
    """Whether an object is a normalized result rather than plain data."""
    return isinstance(value.get("success"), bool)


def _check_text(data: bytes) -> None:
    # What orjson parses, but callers could not. Brackets in strings cannot hide any others.
    is_suspect = data.count(b"[") + data.count(b"{") > _MAX_OUTPUT_DEPTH
    if is_suspect and _is_too_deep(_STRING.sub(b"", data), _MAX_OUTPUT_DEPTH):
        raise InvalidSkillJson(f"nested more than {_MAX_OUTPUT_DEPTH} levels deep")
    if _LONG_INTEGER.search(data):
        json.loads(data.decode(), parse_int=_parse_integer)


def _parse_integer(digits: str) -> int:
    # Checked first, because Python does not convert thousands of digits.
    if len(digits) > len(str(_MIN_INTEGER)) or not _MIN_INTEGER <= int(digits) <= _MAX_INTEGER:
        raise InvalidSkillJson(f"the number {digits[:30]} has more than 64 bits; write it as a string")
    return int(digits)


def _reject_constant(name: str) -> NoReturn:
    raise InvalidSkillJson(f"{name} is not valid JSON; write null")


def _find_in_text(data: bytes, fault: str) -> JsonMatch:
    if not data.strip():
        raise InvalidSkillJson("the output is empty")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    last = result = None
    for one in _iter_objects(text):
        last = one
        result = one if is_result_like(one[0]) else result
    if last is not None and text[last[2] :].strip():
        # An object in the middle of other text does not count.
        last = None
    if result is None and last is None:
        raise InvalidSkillJson(_explain_fault(data, fault))
    value, start, end = cast("_ObjectSpan", result or last)
    written = text[start:end].encode()
    try:
        orjson.loads(written)
        _check_text(written)
    except orjson.JSONDecodeError as error:
        raise InvalidSkillJson(_explain_fault(written, error.msg)) from None
    return JsonMatch(value, f"{text[:start].strip()}\n{text[end:].strip()}".strip())


def _iter_objects(text: str) -> Iterator[_ObjectSpan]:
    """Outermost objects that start at the start of a line, with their positions. Bounded work for any text."""
    decoder = json.JSONDecoder(parse_constant=_reject_constant)
    place, tries, budget = 0, 0, 4 * len(text)
    while tries < _MAX_TRIES and budget > 0 and (match := _OBJECT_AT_LINE_START.search(text, place)):
        start = match.end()
        try:
            value, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            place, budget = start + 1, budget - (error.pos - start)
        except (ValueError, RecursionError):
            place, budget = start + 1, budget - (len(text) - start)
        else:
            yield value, start, end
            place = end
            continue
        tries += 1


def _explain_fault(data: bytes, fault: str) -> str:
    try:
        json.loads(data.decode(), parse_constant=_reject_constant, parse_int=_parse_integer)
    except InvalidSkillJson as error:
        return str(error)
    except UnicodeDecodeError:
        return "not UTF-8"
    except RecursionError:
        return f"nested more than {_MAX_OUTPUT_DEPTH} levels deep"
    except ValueError as error:
        return f"not valid JSON: {error}"
    if "surrogate" in fault:
        return "contains a lone surrogate"
    return f"not valid JSON: {fault}"


def _describe_kind(value: object) -> str:
    names = {"dict": "an object", "list": "a list", "str": "a string", "bool": "a boolean", "NoneType": "null"}
    return names.get(type(value).__name__, "a number")
