"""Offsets in a text to lines and columns, as an editor counts them."""

import re
from bisect import bisect_right

_LINE_END = re.compile(r"\r\n|\r|\n")


class Lines:
    """The lines of a text. LF, CRLF and CR end a line; U+0085 and U+2028, which YAML counts too, do not."""

    __slots__ = ("_starts",)

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def at(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def count_lines(text: str, start: int, end: int) -> int:
    """How many line ends stand between two offsets."""
    if "\r" not in text:
        return text.count("\n", start, end)
    return len(_LINE_END.findall(text, start, end))
