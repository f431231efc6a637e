"""Syslog: the old format (RFC 3164), the one with better times that daemons write today, and RFC 5424."""

import re

from log_formats import stamps
from log_formats.levels import SYSLOG, level_in
from log_formats.record import Record, record
from log_formats.rules import Rules

_OLD = re.compile(
    r"(?:<(\d{1,3})>)?([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.]{5,18}(?:Z|[+-]\d\d:?\d\d)?) "
    r"(\S+) ([^:\[\s]{1,128})(?:\[(\d+)\])?: ?(.*)"
)
_NEW = re.compile(
    r"<(\d{1,3})>1 (\S+) (\S+) (\S+) (\S+) (\S+) "
    r'(-|(?:\[(?:[^\]"\\]|\\.|"(?:[^"\\]|\\.)*")*\])+)(?: (.*))?'
)


class Syslog:
    """The level is the severity where the line has one, and else a word of the message."""

    columns = ("host", "program", "pid", "facility", "message_id", "structured")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def parse(self, line: str) -> Record | None:
        """A record; None for a line that is not syslog."""
        new = _NEW.fullmatch(line)
        if new is not None:
            return self._new(new)
        old = _OLD.fullmatch(line)
        if old is None:
            return None
        priority, when, host, program, pid, message = old.groups()
        return record(
            self._time(when),
            _severity(priority) or level_in(message),
            message,
            **_present({"host": host, "program": program, "pid": pid}),
            **_facility(priority),
        )

    def _new(self, match: re.Match[str]) -> Record:
        priority, when, host, program, pid, kind, structured, message = match.groups()
        named = {"host": host, "program": program, "pid": pid, "message_id": kind, "structured": structured}
        time = None if when == "-" else self._time(when)
        text = (message or "").removeprefix("\ufeff")
        return record(time, _severity(priority), text, **_present(named), **_facility(priority))

    def _time(self, text: str) -> str:
        iso = stamps.ISO.fullmatch(text)
        if iso is not None:
            return stamps.iso(iso)
        old = stamps.BSD.fullmatch(text)
        return stamps.bsd(old, self._rules.year) if old else text


def _severity(priority: str | None) -> str | None:
    return None if priority is None else SYSLOG[int(priority) % 8]


def _facility(priority: str | None) -> dict[str, int]:
    return {} if priority is None else {"facility": int(priority) // 8}


def _present(fields: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value and value != "-"}
