"""A terminal without glass: what a program's output looks like after all its cursor moves. Pure.

It does what xterm does, for text. Colours are ignored, questions are never answered.
"""

from dataclasses import dataclass
from typing import Literal

from openskills.executors.processes.character_width import width
from openskills.executors.processes.screen_grid import Grid
from openskills.executors.processes.tab_stops import TabStops

_FIRST_DRAWN, _DRAWN = "\x5f", " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"
_DRAWING = {ord(_FIRST_DRAWN) + place: char for place, char in enumerate(_DRAWN)}

Erase = Literal["after", "before", "all"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A screen at one moment: its rows without the blanks at their ends, and where the cursor is, counted from 0.

    `is_painted` says that the program has put text at places of its choice, which its output does not show, and
    `is_alternate` that it has a screen to itself. `has_gap`: something was lost, so parts of it may be wrong.
    """

    lines: tuple[str, ...]
    row: int
    column: int
    is_painted: bool
    is_alternate: bool
    has_gap: bool


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Where the next character goes, and how: everything that is saved and restored together."""

    row: int = 0
    column: int = 0
    wraps: bool = False
    in_region: bool = False
    drawing: tuple[bool, bool] = (False, False)
    second_set: bool = False


class Screen:
    """Rows and columns with a cursor. Every method is bounded by the size, whatever numbers it is given."""

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        self.rows, self.columns = rows, columns
        self._main, self._other = Grid(rows, columns), Grid(rows, columns)
        self.reset()

    def reset(self) -> None:
        """As it was at first."""
        self._main.clear()
        self._other.clear()
        self._grid = self._main
        self._saved = {False: _Cursor(), True: _Cursor()}
        self._painted = 0
        self._has_gap = False
        self._last = ""
        self._stops = TabStops(self.columns)
        self.soft_reset()
        self._place(0, 0)

    def soft_reset(self) -> None:
        """Forget all modes; leave text and cursor where they are."""
        self.auto_wrap, self.insert_mode, self.newline_mode = True, False, False
        self._in_region, self._drawing, self._second_set = False, (False, False), False
        self._top, self._bottom = 0, self.rows - 1
        self._saved[self.is_alternate] = _Cursor()

    @property
    def is_alternate(self) -> bool:
        """Whether the program has a screen to itself."""
        return self._grid is self._other

    def picture(self) -> Picture:
        """What is to be seen now."""
        painted = self.is_alternate or self._painted > 0
        return Picture(self._grid.lines(), self._row, self._column, painted, self.is_alternate, self._has_gap)

    def lost(self) -> None:
        """Some of the output was not seen."""
        self._has_gap = True

    def resize(self, rows: int, columns: int) -> None:
        """Change the size; what does not fit any more is gone."""
        self.rows, self.columns = rows, columns
        self._main.resize(rows, columns)
        self._other.resize(rows, columns)
        self._stops = TabStops(columns)
        self._top, self._bottom = 0, rows - 1
        self._place(self._row, self._column)

    # Text

    def text(self, text: str) -> None:
        """Put characters at the cursor, and move it."""
        if self._drawing[self._second_set]:
            text = text.translate(_DRAWING)
        self._last = text[-1]
        if text.isascii():
            self._put(text)
            return
        for char in text:
            cells = width(char)
            if cells == 1:
                self._put(char)
            elif cells == 2:
                self._put_wide(char)
            else:
                self._combine(char)

    def repeat(self, count: int) -> None:
        """Put the last character again, at most a line of it."""
        if self._last:
            self.text(self._last * min(count, self.columns))

    def _put(self, text: str) -> None:
        while text:
            self._wrap_if_due()
            room = self.columns - self._column
            if len(text) > room and not self.auto_wrap:
                # They all went to the last column, one over the other.
                text = text[: room - 1] + text[-1]
            piece, text = text[:room], text[room:]
            if self.insert_mode:
                self._grid.insert(self._row, self._column, len(piece))
            self._grid.put(self._row, self._column, piece)
            self._advance(len(piece))

    def _put_wide(self, char: str) -> None:
        self._wrap_if_due()
        if self._column == self.columns - 1:
            if not self.auto_wrap or self.columns < 2:
                return
            self._wraps = True
            self._wrap_if_due()
        if self.insert_mode:
            self._grid.insert(self._row, self._column, 2)
        self._grid.put_wide(self._row, self._column, char)
        self._advance(2)

    def _combine(self, mark: str) -> None:
        column = self._column if self._wraps else self._column - 1
        if column >= 0:
            self._grid.combine(self._row, column, mark)

    def _advance(self, cells: int) -> None:
        self._column += cells
        if self._column >= self.columns:
            self._column = self.columns - 1
            self._wraps = True

    def _wrap_if_due(self) -> None:
        if self._wraps and self.auto_wrap:
            self._column = 0
            self.index()

    # The cursor

    def move_to(self, row: int, column: int) -> None:
        """Go to a place, counted from 0, in the region where that is the mode."""
        # Who clears the screen and then goes to its first place goes on line by line.
        if row or column or not self._grid.is_blank:
            self._paint()
        if self._in_region:
            self._place(min(self._top + row, self._bottom), column)
        else:
            self._place(row, column)

    def move_to_row(self, row: int) -> None:
        """Go to a row of the same column."""
        self.move_to(row, self._column)

    def move_to_column(self, column: int) -> None:
        """Go to a column of the same row."""
        self._place(self._row, column)

    def up(self, count: int) -> None:
        """Go up; the region's top is the end of the way for who is in it."""
        self._paint()
        self._place(max(self._row - count, self._top if self._row >= self._top else 0), self._column)

    def down(self, count: int) -> None:
        """Go down; the region's bottom is the end of the way for who is in it."""
        last = self._bottom if self._row <= self._bottom else self.rows - 1
        self._place(min(self._row + count, last), self._column)

    def right(self, count: int) -> None:
        """Go right."""
        self._place(self._row, self._column + count)

    def left(self, count: int) -> None:
        """Go left."""
        self._place(self._row, self._column - count)

    def carriage_return(self) -> None:
        """Go to the first column."""
        self._place(self._row, 0)

    def line_feed(self) -> None:
        """Go down a row, and to the first column where that is the mode."""
        self.index()
        if self.newline_mode:
            self.carriage_return()

    def index(self) -> None:
        """Go down a row; at the region's bottom its text goes up instead."""
        self._wraps = False
        if self._row == self._bottom:
            self.scroll_up(1)
        elif self._row < self.rows - 1:
            self._row += 1

    def reverse_index(self) -> None:
        """Go up a row; at the region's top its text goes down instead."""
        self._wraps = False
        if self._row == self._top:
            self.scroll_down(1)
        else:
            self.up(1)

    def tab(self, count: int = 1) -> None:
        """Go to the next tab stop, or to the last column."""
        self._place(self._row, self._stops.after(self._column, count))

    def tab_back(self, count: int) -> None:
        """Go to the tab stop before, or to the first column."""
        self._place(self._row, self._stops.before(self._column, count))

    def set_stop(self) -> None:
        """Make the cursor's column a tab stop."""
        self._stops.set(self._column)

    def clear_stop(self) -> None:
        """Let the cursor's column be no tab stop."""
        self._stops.clear(self._column)

    def clear_stops(self) -> None:
        """Let there be no tab stop."""
        self._stops.clear_all()

    def save(self) -> None:
        """Remember the cursor; there is one to remember for each screen."""
        state = (self._row, self._column, self._wraps, self._in_region, self._drawing, self._second_set)
        self._saved[self.is_alternate] = _Cursor(*state)

    def restore(self) -> None:
        """Go back to where the cursor was when it was saved."""
        saved = self._saved[self.is_alternate]
        self._in_region, self._drawing, self._second_set = saved.in_region, saved.drawing, saved.second_set
        self._place(saved.row, saved.column)
        self._wraps = saved.wraps and self._column == self.columns - 1

    def _place(self, row: int, column: int) -> None:
        self._row = min(max(row, 0), self.rows - 1)
        self._column = min(max(column, 0), self.columns - 1)
        self._wraps = False

    # Changing what is there

    def erase_in_line(self, part: Erase) -> None:
        """Make a part of the row blank; the cursor's place belongs to both parts."""
        self._wraps = False
        start = self._column if part == "after" else 0
        self._grid.erase(self._row, start, self._column + 1 if part == "before" else self.columns)

    def erase_in_display(self, part: Erase) -> None:
        """Make a part of the screen blank."""
        if part == "all" or (part == "after" and not self._row and not self._column):
            self._painted, self._has_gap = 0, False
        if part == "all":
            self._wraps = False
            self._grid.clear()
        else:
            self.erase_in_line(part)
            top, bottom = (self._row + 1, self.rows) if part == "after" else (0, self._row)
            self._grid.clear(top, bottom)

    def erase_characters(self, count: int) -> None:
        """Make cells from the cursor on blank."""
        self._wraps = False
        self._grid.erase(self._row, self._column, min(self._column + count, self.columns))

    def insert_characters(self, count: int) -> None:
        """Move what is at the cursor, and right of it, to the right."""
        self._wraps = False
        self._grid.insert(self._row, self._column, min(count, self.columns))

    def delete_characters(self, count: int) -> None:
        """Remove cells from the cursor on; those on the right of them come nearer."""
        self._wraps = False
        self._grid.delete(self._row, self._column, count)

    def insert_lines(self, count: int) -> None:
        """Move the cursor's row, and those below it, down in the region."""
        if self._top <= self._row <= self._bottom:
            self._grid.scroll_down(self._row, self._bottom, count)
            self.carriage_return()

    def delete_lines(self, count: int) -> None:
        """Remove rows from the cursor's on; those below in the region come up."""
        if self._top <= self._row <= self._bottom:
            self._grid.scroll_up(self._row, self._bottom, count)
            self.carriage_return()

    def scroll_up(self, count: int) -> None:
        """Move the region's text up."""
        if not self.is_alternate and self._bottom - self._top == self.rows - 1:
            self._painted = max(self._painted - count, 0)
        self._grid.scroll_up(self._top, self._bottom, count)

    def scroll_down(self, count: int) -> None:
        """Move the region's text down."""
        self._grid.scroll_down(self._top, self._bottom, count)

    # Modes

    def set_region(self, top: int, bottom: int) -> None:
        """Let only these rows scroll, counted from 0, both included. One row is no region."""
        bottom = min(bottom, self.rows - 1)
        if 0 <= top < bottom:
            self._top, self._bottom = top, bottom
            self.move_to(0, 0)

    def set_in_region(self, on: bool) -> None:
        """Let places be counted from the region's top, and the cursor stay in it."""
        self._in_region = on
        self.move_to(0, 0)

    def designate(self, *, second: bool, drawing: bool) -> None:
        """Let one of the two character sets be letters, or lines to draw boxes with."""
        first = self._drawing
        self._drawing = (first[0], drawing) if second else (drawing, first[1])

    def shift(self, *, second: bool) -> None:
        """Use the first or the second character set."""
        self._second_set = second

    def use_alternate(self, on: bool, *, clear: bool) -> None:
        """Change to the program's own screen, or back to the one that was before, which is unchanged."""
        if on == self.is_alternate:
            return
        self._grid = self._other if on else self._main
        if clear:
            self._other.clear()
            self._has_gap = False
        self._wraps = False

    def _paint(self) -> None:
        # What is painted stays until everything has scrolled away, or is erased.
        if not self.is_alternate:
            self._painted = self.rows
