"""What comes on stdin, read strictly. Pure."""

import json
from collections.abc import Callable
from typing import Any

from openskills.errors import InvalidArgument

MAX_INPUT = 16 * 1024 * 1024
"""Bytes of stdin that are read; the host's own limit is lower."""

_SHAPE = 'stdin has to be {"input": {...}}'


def input_of(data: bytes, *, exact: bool = False) -> dict[str, Any]:
    """The object `input` of a request. With `exact` numbers with a fraction or an exponent come as `Decimal`.

    Raises `InvalidArgument` for what is no JSON: also for NaN, infinities, keys that occur twice, halves of
    characters, and what is nested too deeply.
    """
    if len(data) > MAX_INPUT:
        raise InvalidArgument("input", f"is larger than {MAX_INPUT} bytes")
    if not data.strip():
        raise InvalidArgument("input", f"is missing: {_SHAPE}")
    whole = _parsed(data, _decimals() if exact else None)
    if not isinstance(whole, dict) or not isinstance(whole.get("input"), dict):  # pyright: ignore[reportUnknownMemberType]
        raise InvalidArgument("input", f"is missing or no object: {_SHAPE}")
    return whole["input"]  # pyright: ignore[reportUnknownVariableType]


def _parsed(data: bytes, parse_float: Callable[[str], Any] | None) -> object:
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_float=parse_float)
        if "\\ud" in text or "\\uD" in text:
            # Only an escape can bring half a character into a text that was UTF-8.
            json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument("input", f"is not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise InvalidArgument("input", "contains half a character (a lone surrogate)") from None
    except json.JSONDecodeError as error:
        raise InvalidArgument("input", f"is no JSON: {error}") from None
    except RecursionError:
        raise InvalidArgument("input", "is nested too deeply") from None
    except ValueError:
        raise InvalidArgument("input", "contains a number with too many digits") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise InvalidArgument("input", f"has the key {twice[:100]!r} twice in one object")
    return found


def _constant(word: str) -> object:
    raise InvalidArgument("input", f"contains {word}, which is no number of JSON")


def _decimals() -> Callable[[str], Any]:
    from decimal import Decimal, InvalidOperation

    def read(digits: str) -> Decimal:
        try:
            return Decimal(digits)
        except InvalidOperation:
            raise InvalidArgument("input", f"contains a number that is too large or too small: {digits[:40]}") from None

    return read
