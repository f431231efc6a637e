"""One JSON object on each line."""

import json
from typing import Any

from log_formats import stamps
from log_formats.levels import NUMBERED
from log_formats.record import BASE, Record, record
from log_formats.rules import Rules

TIMES = ("timestamp", "time", "ts", "@timestamp", "datetime", "date")
LEVELS = ("level", "severity", "lvl", "levelname", "loglevel", "log.level")
MESSAGES = ("message", "msg", "text")
DEEPEST = 50


class JsonLines:
    """Takes time, level and message from the usual keys; other keys are kept."""

    columns = ("more",)

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def parse(self, line: str) -> Record | None:
        """The record of a line; None for a line that is not an object or is nested too deeply."""
        if not line.startswith("{") or _too_deep(line):
            return None
        try:
            given: Any = json.loads(line, parse_constant=_no_number)
        except (ValueError, RecursionError):
            return None
        return _normalised(given) if isinstance(given, dict) else None  # pyright: ignore[reportUnknownArgumentType]


def _normalised(given: dict[str, Any]) -> Record:
    time, level, message = (_taken(given, names) for names in (TIMES, LEVELS, MESSAGES))
    made = record(_time(time), _level(level), "" if message is None else _text(message))
    made.update((name if name not in BASE else f"_{name}", value) for name, value in given.items())
    return made


def _taken(given: dict[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if name in given and not isinstance(given[name], dict | list):
            return given.pop(name)
    return None


def _time(value: Any) -> str | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return stamps.from_number(value) or str(value)
    iso = stamps.ISO.fullmatch(value)
    return stamps.iso(iso) if iso else value


def _level(value: Any) -> str | None:
    return NUMBERED.get(value, str(value)) if isinstance(value, int) else _text(value) if value is not None else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _no_number(_word: str) -> None:
    """NaN and infinities become null."""


def _too_deep(line: str) -> bool:
    """Whether so many brackets are open at once that writing it again could fail. Those within texts count, too."""
    if line.count("{") + line.count("[") <= DEEPEST:
        return False
    depth = deepest = 0
    for character in line:
        if character in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "}]":
            depth -= 1
    return deepest > DEEPEST
