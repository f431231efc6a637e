"""Screen and what a viewer sees.

How many cells of a terminal a character takes. Pure.

The cells of a terminal. Pure data: no cursor, no modes.

A line is a list of cells without the blanks at its end, so that clearing costs next to nothing however large it is. A
wide character is in its left cell, and the right one is empty. Every change leaves only whole characters.

Where tabs lead to on a line of a terminal. Pure data.

A terminal without glass: what a program's output looks like after all its cursor moves. Pure.

It does what xterm does, for text. Colours are ignored, questions are never answered.

Which sequence does what to a screen. Pure; what is not here is ignored, questions among it.

What somebody would see who sat at the terminal of a process: kept up to date when somebody looks, not before.
"""

import asyncio
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from openskills.executors.escape_codes import ControlSequence, EscapeParser, read_plain_text
from openskills.executors.protocol import Process
from openskills.executors.spec import TerminalSize

_SOFT_HYPHEN = "\xad"
# Vowels and final consonants of Hangul are drawn into the cell of the consonant before them.
_JOINING = (("\u1160", "\u11ff"), ("\ud7b0", "\ud7ff"))


@lru_cache(maxsize=4096)
def get_char_width(char: str) -> int:
    """2 for wide characters, 0 for marks that stand on the one before, 1 for all others."""
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    if char != _SOFT_HYPHEN and unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 0 if any(first <= char <= last for first, last in _JOINING) else 1


BLANK = " "
_MAX_MARKS = 4


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
        if len(line[column]) <= _MAX_MARKS:
            line[column] += mark

    def erase(self, row: int, start: int, end: int) -> None:
        """Make cells blank, from `start` up to `end`."""
        line = self._lines[row]
        if end >= len(line):
            _split_wide(line, start)
            del line[start:]
        else:
            self._replace(row, start, end, [BLANK] * (end - start))

    def insert(self, row: int, column: int, count: int) -> None:
        """Move cells to the right, out of the line at its end, and leave blanks."""
        line = self._lines[row]
        if column >= len(line):
            return
        _split_wide(line, column)
        line[column:column] = [BLANK] * min(count, self.columns - column)
        self._crop_line(line)

    def delete(self, row: int, column: int, count: int) -> None:
        """Remove cells, and move those on the right to the left."""
        line = self._lines[row]
        _split_wide(line, column)
        _split_wide(line, column + count)
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
            self._crop_line(line)

    def lines(self) -> tuple[str, ...]:
        """Every row as text, without the blanks at its end."""
        return tuple("".join(line).rstrip(BLANK) for line in self._lines)

    def _replace(self, row: int, start: int, end: int, cells: list[str]) -> None:
        line = self._lines[row]
        if len(line) < start:
            line += [BLANK] * (start - len(line))
        _split_wide(line, start)
        _split_wide(line, end)
        line[start:end] = cells

    def _crop_line(self, line: list[str]) -> None:
        if len(line) > self.columns:
            del line[self.columns :]
            # Half of a wide character is none.
            if line and len(line[-1]) and get_char_width(line[-1][0]) == 2:
                line[-1] = BLANK


def _split_wide(line: list[str], column: int) -> None:
    """See to it that no wide character is on both sides of the left edge of a cell."""
    if 0 < column < len(line) and not line[column]:
        line[column - 1] = line[column] = BLANK


_DEFAULT_STOPS = b"\1" + bytes(7)


class TabStops:
    """The columns with a tab stop: every eighth one at first."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._stops = bytearray(_DEFAULT_STOPS * (columns // len(_DEFAULT_STOPS) + 1))[:columns]

    def find_next(self, column: int, count: int) -> int:
        """The column after `count` tabs; the last one when there are fewer stops."""
        for _ in range(min(count, self._columns)):
            column = self._stops.find(1, column + 1)
            if column < 0:
                return self._columns - 1
        return column

    def find_previous(self, column: int, count: int) -> int:
        """The column after `count` tabs backwards; the first one when there are fewer stops."""
        for _ in range(min(count, self._columns)):
            column = self._stops.rfind(1, 0, column)
            if column < 0:
                return 0
        return column

    def set(self, column: int) -> None:
        """Make a column a stop."""
        self._stops[column] = 1

    def clear(self, column: int) -> None:
        """Let a column be no stop."""
        self._stops[column] = 0

    def clear_all(self) -> None:
        """Let no column be a stop."""
        self._stops = bytearray(self._columns)


_FIRST_LINE_CHAR, _LINE_CHARS = "\x5f", " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"
_DRAWING = {ord(_FIRST_LINE_CHAR) + place: char for place, char in enumerate(_LINE_CHARS)}

ErasePart = Literal["after", "before", "all"]


@dataclass(frozen=True, slots=True)
class ScreenSnapshot:
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
class _CursorState:
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
        self._saved = {False: _CursorState(), True: _CursorState()}
        self._painted = 0
        self._has_gap = False
        self._last = ""
        self._stops = TabStops(self.columns)
        self.soft_reset()
        self._set_cursor(0, 0)

    def soft_reset(self) -> None:
        """Forget all modes; leave text and cursor where they are."""
        self.auto_wrap, self.insert_mode, self.newline_mode = True, False, False
        self._in_region, self._drawing, self._second_set = False, (False, False), False
        self._top, self._bottom = 0, self.rows - 1
        self._saved[self.is_alternate] = _CursorState()

    @property
    def is_alternate(self) -> bool:
        """Whether the program has a screen to itself."""
        return self._grid is self._other

    def snapshot(self) -> ScreenSnapshot:
        """What is to be seen now."""
        painted = self.is_alternate or self._painted > 0
        return ScreenSnapshot(self._grid.lines(), self._row, self._column, painted, self.is_alternate, self._has_gap)

    def mark_gap(self) -> None:
        """Some of the output was not seen."""
        self._has_gap = True

    def resize(self, rows: int, columns: int) -> None:
        """Change the size; what does not fit any more is gone."""
        self.rows, self.columns = rows, columns
        self._main.resize(rows, columns)
        self._other.resize(rows, columns)
        self._stops = TabStops(columns)
        self._top, self._bottom = 0, rows - 1
        self._set_cursor(self._row, self._column)

    # Text

    def write(self, text: str) -> None:
        """Put characters at the cursor, and move it."""
        if self._drawing[self._second_set]:
            text = text.translate(_DRAWING)
        self._last = text[-1]
        if text.isascii():
            self._put(text)
            return
        for char in text:
            cells = get_char_width(char)
            if cells == 1:
                self._put(char)
            elif cells == 2:
                self._put_wide(char)
            else:
                self._combine(char)

    def repeat(self, count: int) -> None:
        """Put the last character again, at most a line of it."""
        if self._last:
            self.write(self._last * min(count, self.columns))

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
            self._mark_painted()
        if self._in_region:
            self._set_cursor(min(self._top + row, self._bottom), column)
        else:
            self._set_cursor(row, column)

    def move_to_row(self, row: int) -> None:
        """Go to a row of the same column."""
        self.move_to(row, self._column)

    def move_to_column(self, column: int) -> None:
        """Go to a column of the same row."""
        self._set_cursor(self._row, column)

    def move_up(self, count: int) -> None:
        """Go up; the region's top is the end of the way for who is in it."""
        self._mark_painted()
        self._set_cursor(max(self._row - count, self._top if self._row >= self._top else 0), self._column)

    def move_down(self, count: int) -> None:
        """Go down; the region's bottom is the end of the way for who is in it."""
        last = self._bottom if self._row <= self._bottom else self.rows - 1
        self._set_cursor(min(self._row + count, last), self._column)

    def move_right(self, count: int) -> None:
        """Go right."""
        self._set_cursor(self._row, self._column + count)

    def move_left(self, count: int) -> None:
        """Go left."""
        self._set_cursor(self._row, self._column - count)

    def carriage_return(self) -> None:
        """Go to the first column."""
        self._set_cursor(self._row, 0)

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
            self.move_up(1)

    def tab(self, count: int = 1) -> None:
        """Go to the next tab stop, or to the last column."""
        self._set_cursor(self._row, self._stops.find_next(self._column, count))

    def tab_back(self, count: int) -> None:
        """Go to the tab stop before, or to the first column."""
        self._set_cursor(self._row, self._stops.find_previous(self._column, count))

    def set_stop(self) -> None:
        """Make the cursor's column a tab stop."""
        self._stops.set(self._column)

    def clear_stop(self) -> None:
        """Let the cursor's column be no tab stop."""
        self._stops.clear(self._column)

    def clear_stops(self) -> None:
        """Let there be no tab stop."""
        self._stops.clear_all()

    def save_cursor(self) -> None:
        """Remember the cursor; there is one to remember for each screen."""
        state = (self._row, self._column, self._wraps, self._in_region, self._drawing, self._second_set)
        self._saved[self.is_alternate] = _CursorState(*state)

    def restore_cursor(self) -> None:
        """Go back to where the cursor was when it was saved."""
        saved = self._saved[self.is_alternate]
        self._in_region, self._drawing, self._second_set = saved.in_region, saved.drawing, saved.second_set
        self._set_cursor(saved.row, saved.column)
        self._wraps = saved.wraps and self._column == self.columns - 1

    def _set_cursor(self, row: int, column: int) -> None:
        self._row = min(max(row, 0), self.rows - 1)
        self._column = min(max(column, 0), self.columns - 1)
        self._wraps = False

    # Changing what is there

    def erase_in_line(self, part: ErasePart) -> None:
        """Make a part of the row blank; the cursor's place belongs to both parts."""
        self._wraps = False
        start = self._column if part == "after" else 0
        self._grid.erase(self._row, start, self._column + 1 if part == "before" else self.columns)

    def erase_in_display(self, part: ErasePart) -> None:
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

    def set_origin_mode(self, on: bool) -> None:
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

    def _mark_painted(self) -> None:
        # What is painted stays until everything has scrolled away, or is erased.
        if not self.is_alternate:
            self._painted = self.rows


SequenceAction = Callable[[Screen, ControlSequence], None]
_ERASE_PARTS: Mapping[int, ErasePart] = {0: "after", 1: "before", 2: "all"}
_DRAWING_SET = "0"


class ScreenSink:
    """Does to a screen what a parser hears. Implements `Sink`."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def text(self, text: str) -> None:
        """See `Sink.text`."""
        self._screen.write(text)

    def control(self, char: str) -> None:
        """See `Sink.control`."""
        act = _CONTROLS.get(char)
        if act:
            act(self._screen)

    def escape(self, between: str, final: str) -> None:
        """See `Sink.escape`."""
        if between in ("(", ")"):
            self._screen.designate(second=between == ")", drawing=final == _DRAWING_SET)
        act = _ESCAPES.get(final)
        if act and not between:
            act(self._screen)

    def sequence(self, found: ControlSequence) -> None:
        """See `Sink.sequence`."""
        act = _SEQUENCES.get(found.prefix + found.intermediate + found.final)
        if act:
            act(self._screen, found)


def _erase_in_display(screen: Screen, found: ControlSequence) -> None:
    part = _ERASE_PARTS.get(found.number())
    if part:
        screen.erase_in_display(part)


def _erase_in_line(screen: Screen, found: ControlSequence) -> None:
    part = _ERASE_PARTS.get(found.number())
    if part:
        screen.erase_in_line(part)


def _move_to(screen: Screen, found: ControlSequence) -> None:
    screen.move_to(max(found.number(0), 1) - 1, max(found.number(1), 1) - 1)


def _move_to_next_line(screen: Screen, found: ControlSequence) -> None:
    screen.move_down(found.count)
    screen.carriage_return()


def _move_to_previous_line(screen: Screen, found: ControlSequence) -> None:
    screen.move_up(found.count)
    screen.carriage_return()


def _clear_stops(screen: Screen, found: ControlSequence) -> None:
    if found.number() == 3:
        screen.clear_stops()
    elif not found.number():
        screen.clear_stop()


def _set_region(screen: Screen, found: ControlSequence) -> None:
    screen.set_region(found.count - 1, (found.number(1) or screen.rows) - 1)


def _set_modes(screen: Screen, found: ControlSequence) -> None:
    for number in found.numbers:
        if number == 4:
            screen.insert_mode = found.final == "h"
        elif number == 20:
            screen.newline_mode = found.final == "h"


def _set_private_modes(screen: Screen, found: ControlSequence) -> None:
    for number in found.numbers:
        act = _PRIVATE_MODES.get(number)
        if act:
            act(screen, found.final == "h")


def _set_auto_wrap(screen: Screen, on: bool) -> None:
    screen.auto_wrap = on


def _save_or_restore(screen: Screen, on: bool) -> None:
    if on:
        screen.save_cursor()
    else:
        screen.restore_cursor()


def _switch_screen(screen: Screen, on: bool) -> None:
    if on == screen.is_alternate:
        return
    if on:
        screen.save_cursor()
    screen.use_alternate(on, clear=on)
    if not on:
        screen.restore_cursor()


def _start_next_row(screen: Screen) -> None:
    screen.index()
    screen.carriage_return()


_PRIVATE_MODES: Mapping[int, Callable[[Screen, bool], None]] = {
    6: Screen.set_origin_mode,
    7: _set_auto_wrap,
    47: lambda screen, on: screen.use_alternate(on, clear=False),
    1047: lambda screen, on: screen.use_alternate(on, clear=not on),
    1048: _save_or_restore,
    1049: _switch_screen,
}

_CONTROLS: Mapping[str, Callable[[Screen], None]] = {
    "\b": lambda screen: screen.move_left(1),
    "\t": Screen.tab,
    "\n": Screen.line_feed,
    "\v": Screen.line_feed,
    "\f": Screen.line_feed,
    "\r": Screen.carriage_return,
    "\x0e": lambda screen: screen.shift(second=True),
    "\x0f": lambda screen: screen.shift(second=False),
}

_ESCAPES: Mapping[str, Callable[[Screen], None]] = {
    "7": Screen.save_cursor,
    "8": Screen.restore_cursor,
    "D": Screen.index,
    "E": _start_next_row,
    "H": Screen.set_stop,
    "M": Screen.reverse_index,
    "c": Screen.reset,
}

_SEQUENCES: Mapping[str, SequenceAction] = {
    "@": lambda screen, found: screen.insert_characters(found.count),
    "A": lambda screen, found: screen.move_up(found.count),
    "B": lambda screen, found: screen.move_down(found.count),
    "C": lambda screen, found: screen.move_right(found.count),
    "D": lambda screen, found: screen.move_left(found.count),
    "E": _move_to_next_line,
    "F": _move_to_previous_line,
    "G": lambda screen, found: screen.move_to_column(found.count - 1),
    "H": _move_to,
    "I": lambda screen, found: screen.tab(found.count),
    "J": _erase_in_display,
    "?J": _erase_in_display,
    "K": _erase_in_line,
    "?K": _erase_in_line,
    "L": lambda screen, found: screen.insert_lines(found.count),
    "M": lambda screen, found: screen.delete_lines(found.count),
    "P": lambda screen, found: screen.delete_characters(found.count),
    "S": lambda screen, found: screen.scroll_up(found.count),
    "T": lambda screen, found: screen.scroll_down(found.count),
    "X": lambda screen, found: screen.erase_characters(found.count),
    "Z": lambda screen, found: screen.tab_back(found.count),
    "`": lambda screen, found: screen.move_to_column(found.count - 1),
    "a": lambda screen, found: screen.move_right(found.count),
    "b": lambda screen, found: screen.repeat(found.count),
    "d": lambda screen, found: screen.move_to_row(found.count - 1),
    "e": lambda screen, found: screen.move_down(found.count),
    "f": _move_to,
    "g": _clear_stops,
    "h": _set_modes,
    "l": _set_modes,
    "?h": _set_private_modes,
    "?l": _set_private_modes,
    "r": _set_region,
    "s": lambda screen, _: screen.save_cursor(),
    "u": lambda screen, _: screen.restore_cursor(),
    "!p": lambda screen, _: screen.soft_reset(),
}


MAX_CELLS = 100_000
"""A terminal with more of them gets no picture: it would cost more than it is worth."""

_BACKLOG = 512 * 1024
_SLICE = 4 * 1024
_BEYOND = 1 << 62


@dataclass(frozen=True, slots=True)
class ScreenView:
    """A piece of output as text to be read, and the screen where the output alone does not show how it looks."""

    text: str
    screen: ScreenSnapshot | None = None


class ScreenViewer:
    """Follows the output of one process by its own offset, so that nobody else's reading matters to it."""

    def __init__(self, process: Process, terminal: TerminalSize) -> None:
        self._process = process
        self._screen = _create_screen(terminal)
        self._parser = EscapeParser(ScreenSink(self._screen)) if self._screen else None
        self._lock = asyncio.Lock()
        self._offset = 0

    async def view_output(self, offset: int, data: bytes) -> ScreenView:
        """A piece of output that began at `offset`, and the screen as it is now."""
        text = await read_plain_text(self._process, offset, data) if data else ""
        return ScreenView(text, await self.read_screen())

    async def read_screen(self) -> ScreenSnapshot | None:
        """The screen as it is now; None for a program that only writes line after line.

        Of more than 512 KiB since the last time only the end is looked at, and the picture says that it has a gap.
        """
        if self._screen is None or self._parser is None:
            return None
        async with self._lock:
            await self._catch_up(self._screen, self._parser)
            picture = self._screen.snapshot()
        return picture if picture.is_painted else None

    async def resize(self, terminal: TerminalSize) -> None:
        """The terminal has another size from now on."""
        if terminal.rows * terminal.columns > MAX_CELLS:
            self._screen = self._parser = None
        elif self._screen is not None and self._parser is not None:
            async with self._lock:
                await self._catch_up(self._screen, self._parser)
                self._screen.resize(terminal.rows, terminal.columns)

    async def _catch_up(self, screen: Screen, parser: EscapeParser) -> None:
        printed = (await self._process.read(_BEYOND, limit=0)).offset
        begin = max(self._offset, printed - _BACKLOG)
        while self._offset < printed:
            output = await self._process.read(begin, limit=min(_SLICE, printed - begin))
            if output.offset > self._offset:
                screen.mark_gap()
                parser.reset()
            parser.feed(output.data)
            self._offset = begin = output.next_offset
            # Others are to run meanwhile, however much there is to catch up with.
            await asyncio.sleep(0)


def _create_screen(terminal: TerminalSize) -> Screen | None:
    fits = terminal.rows * terminal.columns <= MAX_CELLS
    return Screen(terminal.rows, terminal.columns) if fits else None
