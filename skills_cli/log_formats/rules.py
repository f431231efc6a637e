"""The object `rules` of a request, validated; errors name the rule."""

import re
from typing import Any

from log_formats import stamps
from log_formats.watch import Guarded, Watch
from openskills.errors import InvalidArgument
from openskills.skillkit.entry import convert_value

MAX_REGEX_LENGTH = 1000
MAX_FORMAT_LENGTH = 100
MAX_ENTRIES = 200
ENCODINGS = (
    *("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030", "gbk", "big5", "shift_jis"),
    *("euc-jp", "euc-kr", "cp1251", "cp1252", "latin-1", "ascii"),
)
FILES = ("jsonl", "json", "csv")

_KNOWN: dict[str, Any] = {
    "timestamp_regex": str,
    "timestamp_format": str,
    "level_regex": str,
    "level_map": dict[str, str],
    "line_regex": str,
    "levels": list[str],
    "multiline": bool,
    "year": int,
    "fields": list[str],
    "encoding": str,
    "output_format": str,
    "output_path": str,
}


class Rules:
    """How lines become records. Every rule may be left out."""

    def __init__(self, given: dict[str, Any], watch: Watch) -> None:
        values = _checked(given)
        self._given = values
        self.timestamp = _regex(values, "timestamp_regex", watch)
        self.level = _regex(values, "level_regex", watch)
        self.line = _regex(values, "line_regex", watch)
        self.timestamp_format: str | None = values.get("timestamp_format")
        self.multiline: bool = values.get("multiline", False)
        self.year: int | None = values.get("year")
        self.level_map = _level_map(values.get("level_map", {}))
        self.levels = frozenset(level.upper() for level in values["levels"]) if "levels" in values else None
        self.fields: tuple[str, ...] | None = tuple(values["fields"]) if "fields" in values else None
        self.encoding: str | None = values.get("encoding")
        self.output_format: str | None = values.get("output_format")
        self.output_path: str | None = values.get("output_path")
        if self.line is not None and not self.line.groups:
            raise invalid("line_regex", "has no named group; use groups such as (?P<message>.*)")

    def mapped(self, level: str | None) -> str | None:
        """The level, mapped as the caller wants."""
        if level is None:
            return None
        upper = level.upper()
        return self.level_map.get(upper, upper)


def invalid(rule: str, message: str) -> InvalidArgument:
    """An error about one rule."""
    return InvalidArgument(f"rules.{rule}", message)


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _KNOWN:
            raise invalid(name[:100], f"unknown rule; known rules: {', '.join(_KNOWN)}")
        if value is not None:
            values[name] = convert_value(f"rules.{name}", value, _KNOWN[name])
            if isinstance(values[name], list | dict) and len(values[name]) > MAX_ENTRIES:
                raise invalid(name, f"has more than {MAX_ENTRIES} entries")
    for name, choices in (("encoding", ENCODINGS), ("output_format", FILES)):
        if name in values and values[name] not in choices:
            raise invalid(name, f"unknown value {values[name][:60]!r}; use one of {', '.join(choices)}")
    if not 1 <= values.get("year", 1) <= 9999:
        raise invalid("year", f"invalid year {values['year']}; use 1 to 9999")
    _check_timestamp_format(values)
    return values


def _check_timestamp_format(values: dict[str, Any]) -> None:
    form: str | None = values.get("timestamp_format")
    if form is None:
        return
    if "%" not in form or len(form) > MAX_FORMAT_LENGTH or not stamps.is_format(form):
        raise invalid("timestamp_format", "invalid time format; use one such as %Y-%m-%d %H:%M:%S")
    if "timestamp_regex" not in values and "line_regex" not in values:
        raise invalid("timestamp_format", "requires timestamp_regex or line_regex")


def _regex(values: dict[str, Any], rule: str, watch: Watch) -> Guarded | None:
    if rule not in values:
        return None
    text: str = values[rule]
    if not 0 < len(text) <= MAX_REGEX_LENGTH:
        raise invalid(rule, f"has {len(text)} characters; 1 to {MAX_REGEX_LENGTH} are allowed")
    try:
        return Guarded(rule, re.compile(text), watch)
    except re.error as error:
        raise invalid(rule, f"invalid regular expression: {error}") from None
    except (RecursionError, OverflowError):
        raise invalid(rule, "invalid regular expression: nested too deeply or too many repeats") from None


def _level_map(given: dict[str, str]) -> dict[str, str]:
    return {name.upper(): value for name, value in given.items()}
