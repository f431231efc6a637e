"""Stops a regular expression that explodes.

Python looks for signals in the middle of a match, and an exception that a handler raises ends it. So a timer is enough,
and nothing has to be done for each line but to say which rule is at work. The timer counts processor time, so a machine
that is busy with other things does not make an expression slow.
"""

import re
import signal
from types import FrameType, TracebackType

SECONDS = 0.5
"""A match that is still the same one after two ticks of so many seconds is stopped."""


class TooSlow(Exception):
    """A match took too long; `rule` says whose expression it was."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


class Watch:
    """Stops the matches of `Guarded` expressions within its block."""

    def __init__(self) -> None:
        self.rule: str | None = None
        self.serial = 0
        self._seen = -1

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGPROF, self._tick)
        signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)

    def _tick(self, _number: int, _frame: FrameType | None) -> None:
        if self.rule is not None and self.serial == self._seen:
            raise TooSlow(self.rule)
        self._seen = self.serial


class Guarded:
    """A regular expression that somebody else wrote."""

    def __init__(self, rule: str, pattern: re.Pattern[str], watch: Watch) -> None:
        self.rule = rule
        self.groups = tuple(pattern.groupindex)
        self._search = pattern.search
        self._watch = watch

    def search(self, text: str) -> re.Match[str] | None:
        """As `re` does it; raises `TooSlow`."""
        watch = self._watch
        watch.serial += 1
        watch.rule = self.rule
        try:
            return self._search(text)
        finally:
            watch.rule = None


def found(match: re.Match[str], name: str) -> str:
    """What a match is about: the group of this name, or else the first group, or else all of it."""
    groups = match.re.groupindex
    if name in groups:
        return match[name] or ""
    return (match[1] if match.re.groups else match[0]) or ""
