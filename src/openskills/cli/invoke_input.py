"""The input of an invocation, as `--input` gives it: JSON, `@FILE`, or `-` for what is piped in."""

import json
import sys
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from openskills.errors import InvalidArgument

OPTION = "--input"
MOST_BYTES = 64 * 1024 * 1024
_EXAMPLE = """write an object, such as '{"text": "hello"}', @FILE or -"""


def read_input(given: str) -> Mapping[str, Any]:
    """The object that is meant. Raises `InvalidArgument` that says where it is no JSON, and what to write."""
    if given == "-":
        return _object(_text(sys.stdin.buffer.read(MOST_BYTES + 1), "what was piped in"), "what was piped in")
    if given.startswith("@"):
        return _object(_text(_file(given[1:]), given[1:]), given[1:])
    return _object(given, "it")


def _file(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidArgument(OPTION, f"{name!r} cannot be read: {why}") from None


def _text(data: bytes, where: str) -> str:
    if len(data) > MOST_BYTES:
        raise InvalidArgument(OPTION, f"{where} is larger than {MOST_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgument(OPTION, f"{where} is not UTF-8 at byte {error.start:,}") from None


def _object(text: str, where: str) -> Mapping[str, Any]:
    try:
        value: object = json.loads(text, parse_constant=_refuse, object_pairs_hook=_pairs)
    except json.JSONDecodeError as error:
        place = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise InvalidArgument(OPTION, f"{where} is no JSON ({place}); {_EXAMPLE}") from None
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidArgument(OPTION, f"{where} is no JSON ({why}); {_EXAMPLE}") from None
    if not isinstance(value, dict):
        raise InvalidArgument(OPTION, f"{where} is no object; {_EXAMPLE}")
    return cast("Mapping[str, Any]", value)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("the same name twice in one object")
    return found
