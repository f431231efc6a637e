"""The cells of a terminal. Pure data: no cursor, no modes.

A line is a list of cells without the blanks at its end, so that clearing costs next to nothing however large it is. A
wide character is in its left cell, and the right one is empty. Every change leaves only whole characters.
"""

from openskills.executors.processes.character_width import width

BLANK = " "
_MOST_MARKS = 4


class Grid:
    """Rows and columns of characters. Callers keep places within it."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows = rows
        self.columns = columns
        self._lines: list[list[str]] = [[] for _ in range(rows)]

    @property
    def is_blank(self) -> bool:
        """Whether nothing was put anywhere since it was cleared."""
        return not any(self._lines)

    def put(self, row: int, column: int, text: str) -> None:
        """Put narrow characters, which fit into the line."""
        self._replace(row, column, column + len(text), list(text))

    def put_wide(self, row: int, column: int, char: str) -> None:
        """Put a wide character, which fits into the line."""
        self._replace(row, column, column + 2, [char, ""])

    def combine(self, row: int, column: int, mark: str) -> None:
        """Put a mark on the character that is there."""
        line = self._lines[row]
        if column >= len(line):
            return
        if not line[column] and column:
            column -= 1
        if len(line[column]) <= _MOST_MARKS:
            line[column] += mark

    def erase(self, row: int, start: int, end: int) -> None:
        """Make cells blank, from `start` up to `end`."""
        line = self._lines[row]
        if end >= len(line):
            _part(line, start)
            del line[start:]
        else:
            self._replace(row, start, end, [BLANK] * (end - start))

    def insert(self, row: int, column: int, count: int) -> None:
        """Move cells to the right, out of the line at its end, and leave blanks."""
        line = self._lines[row]
        if column >= len(line):
            return
        _part(line, column)
        line[column:column] = [BLANK] * min(count, self.columns - column)
        self._crop(line)

    def delete(self, row: int, column: int, count: int) -> None:
        """Remove cells, and move those on the right to the left."""
        line = self._lines[row]
        _part(line, column)
        _part(line, column + count)
        del line[column : column + count]

    def scroll_up(self, top: int, bottom: int, count: int) -> None:
        """Remove lines at the top of a region, both ends included, and add blank ones at its bottom."""
        count = min(count, bottom - top + 1)
        del self._lines[top : top + count]
        self._lines[bottom - count + 1 : bottom - count + 1] = [[] for _ in range(count)]

    def scroll_down(self, top: int, bottom: int, count: int) -> None:
        """Remove lines at the bottom of a region, and add blank ones at its top."""
        count = min(count, bottom - top + 1)
        del self._lines[bottom - count + 1 : bottom + 1]
        self._lines[top:top] = [[] for _ in range(count)]

    def clear(self, top: int = 0, bottom: int | None = None) -> None:
        """Make whole lines blank, from `top` up to `bottom`."""
        bottom = self.rows if bottom is None else bottom
        if any(self._lines[top:bottom]):
            self._lines[top:bottom] = [[] for _ in range(top, bottom)]

    def resize(self, rows: int, columns: int) -> None:
        """Cut off what does not fit, at the right and at the bottom."""
        self.rows, self.columns = rows, columns
        del self._lines[rows:]
        self._lines += [[] for _ in range(rows - len(self._lines))]
        for line in self._lines:
            self._crop(line)

    def lines(self) -> tuple[str, ...]:
        """Every row as text, without the blanks at its end."""
        return tuple("".join(line).rstrip(BLANK) for line in self._lines)

    def _replace(self, row: int, start: int, end: int, cells: list[str]) -> None:
        line = self._lines[row]
        if len(line) < start:
            line += [BLANK] * (start - len(line))
        _part(line, start)
        _part(line, end)
        line[start:end] = cells

    def _crop(self, line: list[str]) -> None:
        if len(line) > self.columns:
            del line[self.columns :]
            # Half of a wide character is none.
            if line and len(line[-1]) and width(line[-1][0]) == 2:
                line[-1] = BLANK


def _part(line: list[str], column: int) -> None:
    """See to it that no wide character is on both sides of the left edge of a cell."""
    if 0 < column < len(line) and not line[column]:
        line[column - 1] = line[column] = BLANK
