"""JSON in and out, one meaning.

What callers send, read strictly: one meaning for every body, or a refusal that says what is wrong. Pure.

orjson refuses NaN, infinities, lone surrogates, text that is no UTF-8 and what follows the document. It keeps the last
of two equal keys and rounds integers beyond 64 bits, until they are as large as infinity; both are looked for here.

The JSON object in what a skill wrote, which may have written other things around it. Pure.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NoReturn, cast

import orjson

from openskills.errors import InvalidArgument, UnsupportedMedia

MAX_DEPTH = 64
"""Levels of objects and lists in a body."""

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
    """Raises `UnsupportedMedia` for a body that does not say it is JSON."""
    if not is_json(content_type):
        found = (content_type or b"").decode("latin-1")[:100]
        said = f"the content type is {found!r}" if found else "there is no content type"
        raise UnsupportedMedia(f"{said}; send JSON with the header Content-Type: application/json")


def read_json(body: bytes) -> Any:
    """The value of a body. Raises `InvalidArgument` that says where and what is wrong."""
    value = _parse_body(body)
    skeleton = _STRING.sub(b"", body)
    if skeleton.count(b"[") + skeleton.count(b"{") > MAX_DEPTH and _compute_depth(skeleton) > MAX_DEPTH:
        raise InvalidArgument("body", f"is nested more than {MAX_DEPTH} levels deep")
    if _has_duplicates(value, skeleton.count(b":")):
        raise InvalidArgument("body", f"has the key {_find_duplicate(body)!r} twice in one object")
    # A number with so many digits may be an integer that orjson has rounded.
    return _parse_exact(body) if _LONG_INTEGER.search(skeleton) else value


def read_input(body: bytes) -> dict[str, Any]:
    """The input of an invocation from its body, `{"input": {...}}`. Raises `InvalidArgument`."""
    value = read_json(body)
    if not isinstance(value, dict):
        raise InvalidArgument("body", f"is {_describe_type(value)}; send an object: {_INPUT_EXAMPLE}")
    document = cast("dict[str, Any]", value)
    for name in document:
        if name != "input":
            raise InvalidArgument(_excerpt(name), f"is no field of an invocation; send {_INPUT_EXAMPLE}")
    if "input" not in document:
        raise InvalidArgument("input", f"is missing; send {_INPUT_EXAMPLE}")
    found = document["input"]
    if not isinstance(found, dict):
        raise InvalidArgument("input", f"is {_describe_type(found)}; it must be an object")
    return cast("dict[str, Any]", found)


_INPUT_EXAMPLE = '{"input": {...}}'


def _parse_body(body: bytes) -> Any:
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
    raise InvalidArgument("body", f"is no JSON: {_describe_error(failure, body)}")


def _describe_error(error: orjson.JSONDecodeError, body: bytes) -> str:
    if not body:
        return f"the body is empty; send {_INPUT_EXAMPLE}"
    return str(error)[:300]


def _parse_exact(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise InvalidArgument("body", "has an integer with more than 4,300 digits") from None


def _compute_depth(skeleton: bytes) -> int:
    steps = skeleton.translate(_DEPTH_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0)


def _has_duplicates(value: Any, members: int) -> bool:
    """Whether a value has fewer members of objects than its text had colons: then some were equal."""
    found = 0
    waiting: list[Any] = [value]
    while found < members and waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            fields = cast("dict[str, Any]", part)
            found += len(fields)
            waiting.extend(item for item in fields.values() if _is_container(item))
        elif isinstance(part, list):
            waiting.extend(item for item in cast("list[Any]", part) if _is_container(item))
    return found < members


def _is_container(value: Any) -> bool:
    return isinstance(value, dict | list)


def _find_duplicate(body: bytes) -> str:
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                found.append(name)
            seen.add(name)

    # Numbers are nothing to it, however long they are.
    json.loads(body, object_pairs_hook=look, parse_int=str)
    return _excerpt(found[0]) if found else ""


def _excerpt(name: str) -> str:
    return name if len(name) <= 100 else f"{name[:100]}…"


def _describe_type(value: object) -> str:
    if value is None:
        return "null"
    words: dict[type, str] = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return words.get(type(value), "an object")


_MAX_OUTPUT_DEPTH = 200
"""Levels that an answer may have: whoever serialises it refuses 255, and it is put into others."""
_MANY_DIGITS = re.compile(rb"[0-9]{19}")
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
_OBJECT_AT_LINE_START = re.compile(r"^[ \t]*(?=\{)", re.MULTILINE)
_MAX_TRIES = 200
_ObjectSpan = tuple[dict[str, Any], int, int]
_BOM = b"\xef\xbb\xbf"


class InvalidSkillJson(ValueError):
    """What was written is no JSON object that can be passed on; the message says why, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class JsonMatch:
    """An object, and what stood before and after it."""

    value: Mapping[str, Any]
    around: str = ""


def find_json_object(written: bytes) -> JsonMatch:
    """The object that was written; with other text around it, the last one that looks like a result.

    Raises `InvalidSkillJson` when there is none, or when it holds what JSON or its readers cannot.
    """
    data = written.removeprefix(_BOM)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return _find_in_text(data, error.msg)
    if not isinstance(value, dict):
        raise InvalidSkillJson(f"it is {_describe_kind(value)} and no object")
    found = cast("dict[str, Any]", value)
    _check_value(data, found)
    return JsonMatch(found)


def is_result_like(value: Mapping[str, Any]) -> bool:
    """Whether an object is a normalised result, and not just any."""
    return isinstance(value.get("success"), bool)


def _check_value(data: bytes, value: object) -> None:
    """Raises `InvalidSkillJson` for what the parser lets pass, but cannot be passed on as it is."""
    if data.count(b"[") + data.count(b"{") > _MAX_OUTPUT_DEPTH and not _is_flat(value):
        raise InvalidSkillJson(f"it is nested more than {_MAX_OUTPUT_DEPTH} levels deep")
    if _MANY_DIGITS.search(data):
        json.loads(data.decode(), parse_int=_parse_integer)


def _is_flat(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(_MAX_OUTPUT_DEPTH):
        level = [inner for outer in level for inner in _iter_children(outer)]
        if not level:
            return True
    return False


def _iter_children(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from (one for one in cast("dict[str, object]", value).values() if isinstance(one, dict | list))
    elif isinstance(value, list):
        yield from (one for one in cast("list[object]", value) if isinstance(one, dict | list))


def _parse_integer(digits: str) -> int:
    # Python refuses to convert thousands of digits at all.
    if len(digits) > len(str(_MIN_INTEGER)) or not _MIN_INTEGER <= int(digits) <= _MAX_INTEGER:
        raise InvalidSkillJson(f"the number {digits[:30]} has more than 64 bits; write it as a string")
    return int(digits)


def _reject_constant(name: str) -> NoReturn:
    raise InvalidSkillJson(f"{name} is not JSON; write null")


def _find_in_text(data: bytes, fault: str) -> JsonMatch:
    if not data.strip():
        raise InvalidSkillJson("it is empty")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    last = result = None
    for one in _iter_objects(text):
        last = one
        result = one if is_result_like(one[0]) else result
    if last is not None and text[last[2] :].strip():
        # Some object in the middle of other text is no answer.
        last = None
    if result is None and last is None:
        raise InvalidSkillJson(_explain_fault(data, fault))
    value, start, end = cast("_ObjectSpan", result or last)
    written = text[start:end].encode()
    _check_value(written, _parse_strict(written))
    return JsonMatch(value, f"{text[:start].strip()}\n{text[end:].strip()}".strip())


def _parse_strict(written: bytes) -> object:
    """As the strict parser reads it; raises `InvalidSkillJson` for what only the other one accepts."""
    try:
        return orjson.loads(written)
    except orjson.JSONDecodeError as error:
        raise InvalidSkillJson(_explain_fault(written, error.msg)) from None


def _iter_objects(text: str) -> Iterator[_ObjectSpan]:
    """The outermost objects that begin at the beginning of a line, with where they begin and end.

    Text is read a few times at most, whatever is in it.
    """
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
    """What is wrong, in words of somebody who wrote the skill."""
    try:
        json.loads(data.decode(), parse_constant=_reject_constant, parse_int=_parse_integer)
    except InvalidSkillJson as error:
        return str(error)
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except RecursionError:
        return f"it is nested more than {_MAX_OUTPUT_DEPTH} levels deep"
    except ValueError as error:
        return f"it is not JSON: {error}"
    if "surrogate" in fault:
        return "it contains half a character (a lone surrogate)"
    return f"it is not JSON: {fault}"


def _describe_kind(value: object) -> str:
    names = {"list": "a list", "str": "a string", "bool": "true or false", "NoneType": "null"}
    return names.get(type(value).__name__, "a number")
