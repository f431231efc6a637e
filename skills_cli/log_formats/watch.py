"""Stop regular expressions with catastrophic backtracking.

Python handles signals during a match, and an exception in the handler ends it, so a timer is enough. The timer counts
CPU time, so that a busy machine does not make an expression slow.
"""

import re
import signal
from types import FrameType, TracebackType

SECONDS = 0.5
"""The interval of the timer; a match that lasts two intervals is stopped."""


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
    """A regular expression of the caller."""

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
    """The group of this name, or the first group, or the whole match."""
    groups = match.re.groupindex
    if name in groups:
        return match[name] or ""
    return (match[1] if match.re.groups else match[0]) or ""
