"""The formats by name, and which one a log is in."""

from collections.abc import Callable, Sequence
from typing import Protocol

from log_formats.access import Access, Apache, Combined, Common, Nginx
from log_formats.jsonl import JsonLines
from log_formats.record import Record
from log_formats.rules import Rules
from log_formats.syslog import Syslog
from log_formats.text import Text


class Format(Protocol):
    """A way to read lines. `columns` are the fields of its records beside those that all have."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the fields, in the order of a table."""
        ...

    def parse(self, line: str) -> Record | None:
        """The record of a line; None when the line is not in this format."""
        ...


FORMATS: dict[str, Callable[[Rules], Format]] = {
    "text": Text,
    "jsonl": JsonLines,
    "syslog": Syslog,
    "nginx": Nginx,
    "apache": Apache,
    "common": Common,
    "combined": Combined,
}
_DETECTED = ("jsonl", "combined", "common", "nginx", "apache", "syslog")


def detected(lines: Sequence[str], rules: Rules) -> str:
    """The format that most of these lines are in; text when it is not at least half of them."""
    if rules.line is not None:
        return "text"
    counts = {name: _fitting(lines, FORMATS[name](rules)) for name in _DETECTED}
    best = max(counts, key=lambda name: counts[name])
    if not lines or counts[best] * 2 < len(lines):
        return "text"
    # A log that has both kinds of lines is read by the one that takes both.
    return "nginx" if best in ("common", "combined") and _fitting(lines, Access(rules)) > counts[best] else best


def _fitting(lines: Sequence[str], reader: Format) -> int:
    return sum(reader.parse(line) is not None for line in lines)
