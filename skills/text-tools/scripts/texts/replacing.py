"""Find and replace, with a look at what would change."""

from __future__ import annotations

import difflib
import re
import signal
from dataclasses import dataclass
from types import FrameType

from texts.files import Fault

MAX_RESULT = 256 * 1024 * 1024
MAX_SHOWN = 200


@dataclass(frozen=True)
class Change:
    """The text after it, and how often something was replaced."""

    text: str
    count: int


def pattern_of(find: str, *, regex: bool, ignore_case: bool, whole_word: bool) -> re.Pattern[str]:
    """The pattern to look for. Raises `Fault` if it is empty or an invalid regular expression."""
    if not find:
        raise Fault(2, "--find: there is nothing to look for")
    source = find if regex else re.escape(find)
    if whole_word:
        source = rf"(?<!\w)(?:{source})(?!\w)"
    try:
        return re.compile(source, re.MULTILINE | (re.IGNORECASE if ignore_case else 0))
    except (re.error, RecursionError, OverflowError) as error:
        raise Fault(2, f"--find: invalid regular expression {find!r}: {error}") from None


def replaced(text: str, pattern: re.Pattern[str], new: str, *, regex: bool, seconds: int) -> Change:
    """Replace every match; in a regular expression's replacement, \\1 is the first group.

    Some regular expressions never end, so there is a limit of time.
    """
    length = 0

    def put(match: re.Match[str]) -> str:
        nonlocal length
        found = match.expand(new) if regex else new
        length += len(found)
        if length > MAX_RESULT:
            raise Fault(2, f"--with: the result would have more than {MAX_RESULT:,} characters")
        return found

    alarm = getattr(signal, "alarm", None)
    if alarm is not None:
        signal.signal(signal.SIGALRM, too_long)
        alarm(seconds)
    try:
        return Change(*pattern.subn(put, text))
    except (re.error, IndexError) as error:
        raise Fault(2, f"--with: {new!r} cannot be used: {error}") from None
    finally:
        if alarm is not None:
            alarm(0)


def too_long(_signal: int, _frame: FrameType | None) -> None:
    raise Fault(2, "--find: this regular expression takes too long; make it simpler, or raise --timeout")


def preview(before: str, after: str, name: str) -> str:
    """The lines that change, as a unified diff, as many as somebody reads."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[str] = []
    # Comparing line by line first keeps the slow comparison to what is there to be shown.
    if len(old) == len(new):
        pairs = [(number, one, two) for number, (one, two) in enumerate(zip(old, new), 1) if one != two]  # noqa: B905
        lines = [row for number, one, two in pairs for row in (f"@@ line {number} @@", f"-{one}", f"+{two}")]
    else:
        start = next((n for n, (one, two) in enumerate(zip(old, new)) if one != two), 0)  # noqa: B905
        window = slice(max(0, start - 2), start + 1000)
        lines = list(difflib.unified_diff(old[window], new[window], lineterm="", n=1))[2:]
    shown = [line if len(line) <= 300 else line[:299] + "…" for line in lines[:MAX_SHOWN]]
    more = [f"… {len(lines) - MAX_SHOWN:,} more lines of changes"] if len(lines) > MAX_SHOWN else []
    return "\n".join([f"--- {name}", f"+++ {name}, changed", *shown, *more]) + "\n"
