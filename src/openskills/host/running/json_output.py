"""The JSON object in what a skill wrote, which may have written other things around it. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import orjson

_DEEPEST = 200
"""Levels that an answer may have: whoever serialises it refuses 255, and it is put into others."""
_MANY_DIGITS = re.compile(rb"[0-9]{19}")
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
_OBJECT_AT_LINE_START = re.compile(r"^[ \t]*(?=\{)", re.MULTILINE)
_MOST_TRIES = 200
_Placed = tuple[dict[str, Any], int, int]
_BOM = b"\xef\xbb\xbf"


class NotJson(ValueError):
    """What was written is no JSON object that can be passed on; the message says why, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object, and what stood before and after it."""

    value: Mapping[str, Any]
    around: str = ""


def json_object(written: bytes) -> Found:
    """The object that was written; with other text around it, the last one that looks like a result.

    Raises `NotJson` when there is none, or when it holds what JSON or its readers cannot.
    """
    data = written.removeprefix(_BOM)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return _among_other_text(data, error.msg)
    if not isinstance(value, dict):
        raise NotJson(f"it is {_kind(value)} and no object")
    found = cast("dict[str, Any]", value)
    _check(data, found)
    return Found(found)


def looks_like_result(value: Mapping[str, Any]) -> bool:
    """Whether an object is a normalised result, and not just any."""
    return isinstance(value.get("success"), bool)


def _check(data: bytes, value: object) -> None:
    """Raises `NotJson` for what the parser lets pass, but cannot be passed on as it is."""
    if data.count(b"[") + data.count(b"{") > _DEEPEST and not _is_flat(value):
        raise NotJson(f"it is nested more than {_DEEPEST} levels deep")
    if _MANY_DIGITS.search(data):
        json.loads(data.decode(), parse_int=_whole_number)


def _is_flat(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return True
    return False


def _inside(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from (one for one in cast("dict[str, object]", value).values() if isinstance(one, dict | list))
    elif isinstance(value, list):
        yield from (one for one in cast("list[object]", value) if isinstance(one, dict | list))


def _whole_number(digits: str) -> int:
    # Python refuses to convert thousands of digits at all.
    if len(digits) > len(str(_SMALLEST)) or not _SMALLEST <= int(digits) <= _LARGEST:
        raise NotJson(f"the number {digits[:30]} has more than 64 bits; write it as a string")
    return int(digits)


def _constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON; write null")


def _among_other_text(data: bytes, fault: str) -> Found:
    if not data.strip():
        raise NotJson("it is empty")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    last = result = None
    for one in _objects(text):
        last = one
        result = one if looks_like_result(one[0]) else result
    if last is not None and text[last[2] :].strip():
        # Some object in the middle of other text is no answer.
        last = None
    if result is None and last is None:
        raise NotJson(_why(data, fault))
    value, start, end = cast("_Placed", result or last)
    written = text[start:end].encode()
    _check(written, _reread(written))
    return Found(value, f"{text[:start].strip()}\n{text[end:].strip()}".strip())


def _reread(written: bytes) -> object:
    """As the strict parser reads it; raises `NotJson` for what only the other one accepts."""
    try:
        return orjson.loads(written)
    except orjson.JSONDecodeError as error:
        raise NotJson(_why(written, error.msg)) from None


def _objects(text: str) -> Iterator[_Placed]:
    """The outermost objects that begin at the beginning of a line, with where they begin and end.

    Text is read a few times at most, whatever is in it.
    """
    decoder = json.JSONDecoder(parse_constant=_constant)
    place, tries, budget = 0, 0, 4 * len(text)
    while tries < _MOST_TRIES and budget > 0 and (match := _OBJECT_AT_LINE_START.search(text, place)):
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


def _why(data: bytes, fault: str) -> str:
    """What is wrong, in words of somebody who wrote the skill."""
    try:
        json.loads(data.decode(), parse_constant=_constant, parse_int=_whole_number)
    except NotJson as error:
        return str(error)
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except RecursionError:
        return f"it is nested more than {_DEEPEST} levels deep"
    except ValueError as error:
        return f"it is not JSON: {error}"
    if "surrogate" in fault:
        return "it contains half a character (a lone surrogate)"
    return f"it is not JSON: {fault}"


def _kind(value: object) -> str:
    names = {"list": "a list", "str": "a string", "bool": "true or false", "NoneType": "null"}
    return names.get(type(value).__name__, "a number")
