"""Lines that match, with the lines around them, of a text that comes in blocks of whole lines. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN = 240
"""So many characters of a line are shown."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that matches and its number, counted from 1; long lines are cut around the match."""

    number: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Window:
    """Holds the lines that are being searched and `context` lines on each side of them.

    Lines are only told apart where something was found: most of most files is passed over at the speed of `find`.
    """

    def __init__(self, context: int = 0) -> None:
        self._context = context
        self._text = ""
        self._begin = self._end = 0
        self._before = 0
        self._number = 1

    def add(self, block: str, *, last: bool = False) -> str:
        """Take the next lines, each with its newline; those that can be searched now are the answer.

        Lines whose following lines have not come yet wait for them, unless these were the `last` ones.
        """
        self._text += block
        held = len(self._text) if last else _start(self._text, len(self._text), self._context)
        self._end = max(self._begin, held)
        return self._text[self._begin : self._end]

    def take(self, matches: Sequence[tuple[int, int]]) -> list[Hit]:
        """The lines of the last answer that matched: their indices in it, and the columns where they did."""
        lines = self._text.split("\n")[:-1] if matches else []
        hits = [self._hit(lines, self._before + index, column) for index, column in matches]
        begun = _start(self._text, self._end, self._context)
        self._number += self._text.count("\n", 0, begun)
        self._before = self._text.count("\n", begun, self._end)
        self._text = self._text[begun:]
        self._begin = self._end - begun
        return hits

    def _hit(self, lines: Sequence[str], index: int, column: int) -> Hit:
        before = lines[max(0, index - self._context) : index]
        after = lines[index + 1 : index + 1 + self._context]
        text = excerpt(lines[index], column)
        return Hit(self._number + index, text, tuple(map(excerpt, before)), tuple(map(excerpt, after)))


def excerpt(line: str, column: int = 0) -> str:
    """A line, or what is around a column of it, with marks where it was cut."""
    if len(line) <= SHOWN:
        return line
    start = max(0, min(column - SHOWN // 4, len(line) - SHOWN))
    end = start + SHOWN
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")


def _start(text: str, end: int, lines: int) -> int:
    """Where the last so many lines before `end`, which is the end of a line, begin."""
    for _ in range(lines):
        if not end:
            break
        end = text.rfind("\n", 0, end - 1) + 1
    return end
