"""Log levels."""

import re

WORDS = (
    "TRACE|DEBUG|INFO|INFORMATION|NOTICE|WARN|WARNING|ERR|ERROR|SEVERE|CRIT|CRITICAL|FATAL|ALERT|EMERG|EMERGENCY|PANIC"
)
LEADING = re.compile(rf"[\[<(|\s:-]{{0,8}}(?P<level>{WORDS})\b[\]>)|\s:,-]{{0,8}}", re.IGNORECASE)
"""A level at the beginning of what follows the time, with the brackets around it."""

ANYWHERE = re.compile(
    rf"\b(?:{WORDS})\b|(?i:\b(?:level|severity|lvl)\W{{1,3}}(?P<level>{WORDS})\b)|(?i:\[(?P<bracketed>{WORDS})\])"
)
"""A level in the middle of a line: in capitals, in brackets, or named as such."""

SYSLOG = ("EMERG", "ALERT", "CRIT", "ERR", "WARNING", "NOTICE", "INFO", "DEBUG")
"""The severities of syslog, by number."""

NUMBERED = {10: "TRACE", 20: "DEBUG", 30: "INFO", 40: "WARN", 50: "ERROR", 60: "FATAL"}
"""The levels of pino and bunyan."""


def level_in(text: str) -> str | None:
    """The first level in a text."""
    match = ANYWHERE.search(text)
    if match is None:
        return None
    return match["level"] or match["bracketed"] or match[0]


def level_of_status(status: int) -> str:
    """The level for an HTTP status."""
    if status >= 500:
        return "ERROR"
    return "WARN" if status >= 400 else "INFO"
