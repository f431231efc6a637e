"""Lines for people: a time and a level somewhere, and the rest."""

from log_formats import stamps
from log_formats.levels import LEADING, level_in
from log_formats.record import BASE, Record, record
from log_formats.rules import Rules

_AFTER_TIME = " \t]|:,-"
_NEAR_THE_START = 40
_PLACES = (stamps.ISO, stamps.COMMON, stamps.BSD)


class Text:
    """Every line is a record, with null where it has no time or level. `rules.line_regex` takes lines apart instead."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        groups = rules.line.groups if rules.line else ()
        self.columns = tuple(name for name in groups if name not in BASE)

    def parse(self, line: str) -> Record | None:
        """A record; None for a line that `rules.line_regex` does not fit."""
        if self._rules.line is not None:
            return self._by_regex(line)
        timestamp, rest = self._timed(line)
        leading = LEADING.match(rest)
        if leading is not None:
            return record(timestamp, leading["level"], rest[leading.end() :].rstrip())
        return record(timestamp, level_in(rest), rest.strip())

    def _timed(self, line: str) -> tuple[str | None, str]:
        """The time in the first part of a line, and the line without it where it comes first."""
        for pattern in _PLACES:
            match = pattern.search(line, 0, _NEAR_THE_START + 40)
            if match is not None and match.start() <= _NEAR_THE_START:
                rest = line[match.end() :].lstrip(_AFTER_TIME) if match.start() <= 1 else line
                if pattern is stamps.ISO:
                    return stamps.iso(match), rest
                return stamps.bsd(match, self._rules.year) if pattern is stamps.BSD else stamps.common(match[0]), rest
        return None, line

    def _by_regex(self, line: str) -> Record | None:
        match = self._rules.line.search(line) if self._rules.line else None
        if match is None:
            return None
        found = match.groupdict()
        number = found.pop("line_no", None)
        made = record(found.pop("timestamp", None), found.pop("level", None), found.pop("message", None) or "")
        return {**made, **({} if number is None else {"_line_no": number}), **found}
