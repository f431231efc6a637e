"""Terminal emulator: what a program's output looks like on a screen, after all cursor movements.

It behaves like xterm for text. Colors are ignored and queries are not answered. `ScreenViewer` follows the output of a
process and updates its screen only on request.
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
# Hangul vowels and final consonants are drawn into the cell of the preceding consonant.
_JOINING = (("\u1160", "\u11ff"), ("\ud7b0", "\ud7ff"))


@lru_cache(maxsize=4096)
def get_char_width(char: str) -> int:
    """2 for wide characters, 0 for combining marks, 1 for all others."""
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    if char != _SOFT_HYPHEN and unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 0 if any(first <= char <= last for first, last in _JOINING) else 1


BLANK = " "
_MAX_MARKS = 4


class Grid:
    """Rows and columns of characters, without cursor and modes. Callers keep positions within bounds.

    A line is a list of cells without trailing blanks, so that clearing is cheap. A wide character is in its left cell,
    and the right one is empty. Every change leaves only whole characters.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self.rows = rows
        self.columns = columns
        self._lines: list[list[str]] = [[] for _ in range(rows)]

    @property
    def is_blank(self) -> bool:
        """Whether nothing was written since it was cleared."""
        return not any(self._lines)

    def put(self, row: int, column: int, text: str) -> None:
        """Write narrow characters, which fit into the line."""
        self._replace(row, column, column + len(text), list(text))

    def put_wide(self, row: int, column: int, char: str) -> None:
        """Write a wide character, which fits into the line."""
        self._replace(row, column, column + 2, [char, ""])

    def combine(self, row: int, column: int, mark: str) -> None:
        """Add a combining mark to the character at a position."""
        line = self._lines[row]
        if column >= len(line):
            return
        if not line[column] and column:
            column -= 1
        if len(line[column]) <= _MAX_MARKS:
            line[column] += mark

    def erase(self, row: int, start: int, end: int) -> None:
        """Clear cells from `start` up to `end`."""
        line = self._lines[row]
        if end >= len(line):
            _split_wide(line, start)
            del line[start:]
        else:
            self._replace(row, start, end, [BLANK] * (end - start))

    def insert(self, row: int, column: int, count: int) -> None:
        """Insert blanks; cells on the right move out of the line at its end."""
        line = self._lines[row]
        if column >= len(line):
            return
        _split_wide(line, column)
        line[column:column] = [BLANK] * min(count, self.columns - column)
        self._crop_line(line)

    def delete(self, row: int, column: int, count: int) -> None:
        """Remove cells; cells on the right move left."""
        line = self._lines[row]
        _split_wide(line, column)
        _split_wide(line, column + count)
        del line[column : column + count]

    def scroll_up(self, top: int, bottom: int, count: int) -> None:
        """Remove lines at the top of a region (inclusive), and add blank ones at its bottom."""
        count = min(count, bottom - top + 1)
        del self._lines[top : top + count]
        self._lines[bottom - count + 1 : bottom - count + 1] = [[] for _ in range(count)]

    def scroll_down(self, top: int, bottom: int, count: int) -> None:
        """Remove lines at the bottom of a region, and add blank ones at its top."""
        count = min(count, bottom - top + 1)
        del self._lines[bottom - count + 1 : bottom + 1]
        self._lines[top:top] = [[] for _ in range(count)]

    def clear(self, top: int = 0, bottom: int | None = None) -> None:
        """Clear whole lines, from `top` up to `bottom`."""
        bottom = self.rows if bottom is None else bottom
        if any(self._lines[top:bottom]):
            self._lines[top:bottom] = [[] for _ in range(top, bottom)]

    def resize(self, rows: int, columns: int) -> None:
        """Change the size, cutting off at the right and at the bottom."""
        self.rows, self.columns = rows, columns
        del self._lines[rows:]
        self._lines += [[] for _ in range(rows - len(self._lines))]
        for line in self._lines:
            self._crop_line(line)

    def lines(self) -> tuple[str, ...]:
        """All rows as text, without trailing blanks."""
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
            # Do not keep half of a wide character.
            if line and len(line[-1]) and get_char_width(line[-1][0]) == 2:
                line[-1] = BLANK


def _split_wide(line: list[str], column: int) -> None:
    """Blank out a wide character that straddles the left edge of a cell."""
    if 0 < column < len(line) and not line[column]:
        line[column - 1] = line[column] = BLANK


_DEFAULT_STOPS = b"\1" + bytes(7)


class TabStops:
    """The columns with a tab stop, initially every eighth."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._stops = bytearray(_DEFAULT_STOPS * (columns // len(_DEFAULT_STOPS) + 1))[:columns]

    def find_next(self, column: int, count: int) -> int:
        """The column after `count` tabs, at most the last one."""
        for _ in range(min(count, self._columns)):
            column = self._stops.find(1, column + 1)
            if column < 0:
                return self._columns - 1
        return column

    def find_previous(self, column: int, count: int) -> int:
        """The column `count` tabs back, at least the first one."""
        for _ in range(min(count, self._columns)):
            column = self._stops.rfind(1, 0, column)
            if column < 0:
                return 0
        return column

    def set(self, column: int) -> None:
        """Set a tab stop."""
        self._stops[column] = 1

    def clear(self, column: int) -> None:
        """Remove a tab stop."""
        self._stops[column] = 0

    def clear_all(self) -> None:
        """Remove all tab stops."""
        self._stops = bytearray(self._columns)


_FIRST_LINE_CHAR, _LINE_CHARS = "\x5f", " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"
_DRAWING = {ord(_FIRST_LINE_CHAR) + place: char for place, char in enumerate(_LINE_CHARS)}

ErasePart = Literal["after", "before", "all"]


@dataclass(frozen=True, slots=True)
class ScreenSnapshot:
    """The content of a screen: its rows without trailing blanks, and the position of the cursor, counted from 0.

    `is_painted`: the program has positioned text, so its output alone does not show the result. `is_alternate`: it uses
    the alternate screen. `has_gap`: some output was lost, so parts may be wrong.
    """

    lines: tuple[str, ...]
    row: int
    column: int
    is_painted: bool
    is_alternate: bool
    has_gap: bool


@dataclass(frozen=True, slots=True)
class _CursorState:
    """The state that is saved and restored with the cursor."""

    row: int = 0
    column: int = 0
    wraps: bool = False
    in_region: bool = False
    drawing: tuple[bool, bool] = (False, False)
    second_set: bool = False


class Screen:
    """Rows and columns with a cursor. Every method is bounded by the size, whatever its arguments."""

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        self.rows, self.columns = rows, columns
        self._main, self._other = Grid(rows, columns), Grid(rows, columns)
        self.reset()

    def reset(self) -> None:
        """Return to the initial state."""
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
        """Reset all modes; text and cursor stay."""
        self.auto_wrap, self.insert_mode, self.newline_mode = True, False, False
        self._in_region, self._drawing, self._second_set = False, (False, False), False
        self._top, self._bottom = 0, self.rows - 1
        self._saved[self.is_alternate] = _CursorState()

    @property
    def is_alternate(self) -> bool:
        """Whether the alternate screen is active."""
        return self._grid is self._other

    def snapshot(self) -> ScreenSnapshot:
        """The current content."""
        painted = self.is_alternate or self._painted > 0
        return ScreenSnapshot(self._grid.lines(), self._row, self._column, painted, self.is_alternate, self._has_gap)

    def mark_gap(self) -> None:
        """Record that some output was lost."""
        self._has_gap = True

    def resize(self, rows: int, columns: int) -> None:
        """Change the size, cutting off what does not fit."""
        self.rows, self.columns = rows, columns
        self._main.resize(rows, columns)
        self._other.resize(rows, columns)
        self._stops = TabStops(columns)
        self._top, self._bottom = 0, rows - 1
        self._set_cursor(self._row, self._column)

    # Text

    def write(self, text: str) -> None:
        """Write characters at the cursor."""
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
                column = self._column if self._wraps else self._column - 1
                if column >= 0:
                    self._grid.combine(self._row, column, char)

    def repeat(self, count: int) -> None:
        """Repeat the last character, at most for a line."""
        if self._last:
            self.write(self._last * min(count, self.columns))

    def _put(self, text: str) -> None:
        while text:
            self._wrap_if_due()
            room = self.columns - self._column
            if len(text) > room and not self.auto_wrap:
                # Without wrapping, the rest overwrites the last column.
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
        """Move to a position, counted from 0; relative to the region in origin mode."""
        # A program that clears the screen and moves to its start still writes line by line.
        if row or column or not self._grid.is_blank:
            self._mark_painted()
        if self._in_region:
            self._set_cursor(min(self._top + row, self._bottom), column)
        else:
            self._set_cursor(row, column)

    def move_to_row(self, row: int) -> None:
        """Move to a row in the same column."""
        self.move_to(row, self._column)

    def move_to_column(self, column: int) -> None:
        """Move to a column in the same row."""
        self._set_cursor(self._row, column)

    def move_up(self, count: int) -> None:
        """Move up, within the region if the cursor is in it."""
        self._mark_painted()
        self._set_cursor(max(self._row - count, self._top if self._row >= self._top else 0), self._column)

    def move_down(self, count: int) -> None:
        """Move down, within the region if the cursor is in it."""
        last = self._bottom if self._row <= self._bottom else self.rows - 1
        self._set_cursor(min(self._row + count, last), self._column)

    def move_right(self, count: int) -> None:
        """Move right."""
        self._set_cursor(self._row, self._column + count)

    def move_left(self, count: int) -> None:
        """Move left."""
        self._set_cursor(self._row, self._column - count)

    def carriage_return(self) -> None:
        """Move to the first column."""
        self._set_cursor(self._row, 0)

    def line_feed(self) -> None:
        """Move down a row, and in newline mode to the first column."""
        self.index()
        if self.newline_mode:
            self.carriage_return()

    def index(self) -> None:
        """Move down a row, scrolling at the region's bottom."""
        self._wraps = False
        if self._row == self._bottom:
            self.scroll_up(1)
        elif self._row < self.rows - 1:
            self._row += 1

    def next_line(self) -> None:
        """Move to the start of the next row, scrolling at the region's bottom."""
        self.index()
        self.carriage_return()

    def reverse_index(self) -> None:
        """Move up a row, scrolling at the region's top."""
        self._wraps = False
        if self._row == self._top:
            self.scroll_down(1)
        else:
            self.move_up(1)

    def tab(self, count: int = 1) -> None:
        """Move to the next tab stop, or to the last column."""
        self._set_cursor(self._row, self._stops.find_next(self._column, count))

    def tab_back(self, count: int) -> None:
        """Move to the previous tab stop, or to the first column."""
        self._set_cursor(self._row, self._stops.find_previous(self._column, count))

    def set_stop(self) -> None:
        """Set a tab stop at the cursor."""
        self._stops.set(self._column)

    def clear_stop(self) -> None:
        """Remove the tab stop at the cursor."""
        self._stops.clear(self._column)

    def clear_stops(self) -> None:
        """Remove all tab stops."""
        self._stops.clear_all()

    def save_cursor(self) -> None:
        """Save the cursor, separately for each screen."""
        state = (self._row, self._column, self._wraps, self._in_region, self._drawing, self._second_set)
        self._saved[self.is_alternate] = _CursorState(*state)

    def restore_cursor(self) -> None:
        """Restore the saved cursor."""
        saved = self._saved[self.is_alternate]
        self._in_region, self._drawing, self._second_set = saved.in_region, saved.drawing, saved.second_set
        self._set_cursor(saved.row, saved.column)
        self._wraps = saved.wraps and self._column == self.columns - 1

    def _set_cursor(self, row: int, column: int) -> None:
        self._row = min(max(row, 0), self.rows - 1)
        self._column = min(max(column, 0), self.columns - 1)
        self._wraps = False

    # Editing

    def erase_in_line(self, part: ErasePart) -> None:
        """Clear a part of the row, including the cursor's position."""
        self._wraps = False
        start = self._column if part == "after" else 0
        self._grid.erase(self._row, start, self._column + 1 if part == "before" else self.columns)

    def erase_in_display(self, part: ErasePart) -> None:
        """Clear a part of the screen."""
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
        """Clear cells from the cursor on."""
        self._wraps = False
        self._grid.erase(self._row, self._column, min(self._column + count, self.columns))

    def insert_characters(self, count: int) -> None:
        """Insert blanks at the cursor."""
        self._wraps = False
        self._grid.insert(self._row, self._column, min(count, self.columns))

    def delete_characters(self, count: int) -> None:
        """Remove cells from the cursor on."""
        self._wraps = False
        self._grid.delete(self._row, self._column, count)

    def insert_lines(self, count: int) -> None:
        """Insert blank rows at the cursor's row, within the region."""
        if self._top <= self._row <= self._bottom:
            self._grid.scroll_down(self._row, self._bottom, count)
            self.carriage_return()

    def delete_lines(self, count: int) -> None:
        """Remove rows from the cursor's row on, within the region."""
        if self._top <= self._row <= self._bottom:
            self._grid.scroll_up(self._row, self._bottom, count)
            self.carriage_return()

    def scroll_up(self, count: int) -> None:
        """Scroll the region up."""
        if not self.is_alternate and self._bottom - self._top == self.rows - 1:
            self._painted = max(self._painted - count, 0)
        self._grid.scroll_up(self._top, self._bottom, count)

    def scroll_down(self, count: int) -> None:
        """Scroll the region down."""
        self._grid.scroll_down(self._top, self._bottom, count)

    # Modes

    def set_region(self, top: int, bottom: int) -> None:
        """Restrict scrolling to these rows (from 0, inclusive). A region has at least two rows."""
        bottom = min(bottom, self.rows - 1)
        if 0 <= top < bottom:
            self._top, self._bottom = top, bottom
            self.move_to(0, 0)

    def set_origin_mode(self, on: bool) -> None:
        """Count positions from the region's top, and keep the cursor in it."""
        self._in_region = on
        self.move_to(0, 0)

    def set_auto_wrap(self, on: bool) -> None:
        """Wrap at the end of a line, or overwrite the last column."""
        self.auto_wrap = on

    def designate(self, *, second: bool, drawing: bool) -> None:
        """Make one of the two character sets letters or line drawing characters."""
        first = self._drawing
        self._drawing = (first[0], drawing) if second else (drawing, first[1])

    def shift(self, *, second: bool) -> None:
        """Select the first or the second character set."""
        self._second_set = second

    def use_alternate(self, on: bool, *, clear: bool) -> None:
        """Switch to the alternate screen, or back to the unchanged main screen."""
        if on == self.is_alternate:
            return
        self._grid = self._other if on else self._main
        if clear:
            self._other.clear()
            self._has_gap = False
        self._wraps = False

    def _mark_painted(self) -> None:
        # Painted rows remain until they have scrolled away or are erased.
        if not self.is_alternate:
            self._painted = self.rows


SequenceAction = Callable[[Screen, ControlSequence], None]
_ERASE_PARTS: Mapping[int, ErasePart] = {0: "after", 1: "before", 2: "all"}
_DRAWING_SET = "0"


class ScreenSink:
    """Applies parser output to a screen. Implements `EscapeSink`. Unknown sequences are ignored."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def text(self, text: str) -> None:
        """See `EscapeSink.text`."""
        self._screen.write(text)

    def control(self, char: str) -> None:
        """See `EscapeSink.control`."""
        act = _CONTROLS.get(char)
        if act:
            act(self._screen)

    def escape(self, between: str, final: str) -> None:
        """See `EscapeSink.escape`."""
        if between in ("(", ")"):
            self._screen.designate(second=between == ")", drawing=final == _DRAWING_SET)
        act = _ESCAPES.get(final)
        if act and not between:
            act(self._screen)

    def sequence(self, found: ControlSequence) -> None:
        """See `EscapeSink.sequence`."""
        act = _SEQUENCES.get(found.prefix + found.intermediate + found.final)
        if act:
            act(self._screen, found)


def _erase(act: Callable[[Screen, ErasePart], None]) -> SequenceAction:
    def erase(screen: Screen, found: ControlSequence) -> None:
        part = _ERASE_PARTS.get(found.number())
        if part:
            act(screen, part)

    return erase


def _move_lines(move: Callable[[Screen, int], None]) -> SequenceAction:
    def move_lines(screen: Screen, found: ControlSequence) -> None:
        move(screen, found.count)
        screen.carriage_return()

    return move_lines


def _move_to(screen: Screen, found: ControlSequence) -> None:
    screen.move_to(max(found.number(0), 1) - 1, max(found.number(1), 1) - 1)


def _clear_stops(screen: Screen, found: ControlSequence) -> None:
    if found.number() == 3:
        screen.clear_stops()
    elif not found.number():
        screen.clear_stop()


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


def _switch_screen(screen: Screen, on: bool) -> None:
    if on == screen.is_alternate:
        return
    if on:
        screen.save_cursor()
    screen.use_alternate(on, clear=on)
    if not on:
        screen.restore_cursor()


_PRIVATE_MODES: Mapping[int, Callable[[Screen, bool], None]] = {
    6: Screen.set_origin_mode,
    7: Screen.set_auto_wrap,
    47: lambda screen, on: screen.use_alternate(on, clear=False),
    1047: lambda screen, on: screen.use_alternate(on, clear=not on),
    1048: lambda screen, on: screen.save_cursor() if on else screen.restore_cursor(),
    1049: _switch_screen,
}

_CONTROLS: Mapping[str, Callable[[Screen], None]] = {
    "\b": lambda screen: screen.move_left(1),
    "\t": Screen.tab,
    **dict.fromkeys("\n\v\f", Screen.line_feed),
    "\r": Screen.carriage_return,
    "\x0e": lambda screen: screen.shift(second=True),
    "\x0f": lambda screen: screen.shift(second=False),
}

_ESCAPES: Mapping[str, Callable[[Screen], None]] = {
    "7": Screen.save_cursor,
    "8": Screen.restore_cursor,
    "D": Screen.index,
    "E": Screen.next_line,
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
    "E": _move_lines(Screen.move_down),
    "F": _move_lines(Screen.move_up),
    "G": lambda screen, found: screen.move_to_column(found.count - 1),
    "H": _move_to,
    "I": lambda screen, found: screen.tab(found.count),
    **dict.fromkeys(("J", "?J"), _erase(Screen.erase_in_display)),
    **dict.fromkeys(("K", "?K"), _erase(Screen.erase_in_line)),
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
    **dict.fromkeys("hl", _set_modes),
    **dict.fromkeys(("?h", "?l"), _set_private_modes),
    "r": lambda screen, found: screen.set_region(found.count - 1, (found.number(1) or screen.rows) - 1),
    "s": lambda screen, _: screen.save_cursor(),
    "u": lambda screen, _: screen.restore_cursor(),
    "!p": lambda screen, _: screen.soft_reset(),
}


MAX_CELLS = 100_000
"""Larger terminals have no screen, which would cost too much."""

_BACKLOG = 512 * 1024
_SLICE = 4 * 1024
_BEYOND = 1 << 62


@dataclass(frozen=True, slots=True)
class ScreenView:
    """Output as plain text, and the screen if the text alone does not show the result."""

    text: str
    screen: ScreenSnapshot | None = None


class ScreenViewer:
    """Follows the output of one process at its own offset, independent of other readers."""

    def __init__(self, process: Process, terminal: TerminalSize) -> None:
        self._process = process
        fits = terminal.rows * terminal.columns <= MAX_CELLS
        self._screen = Screen(terminal.rows, terminal.columns) if fits else None
        self._parser = EscapeParser(ScreenSink(self._screen)) if self._screen else None
        self._lock = asyncio.Lock()
        self._offset = 0

    async def view_output(self, offset: int, data: bytes) -> ScreenView:
        """The output that began at `offset` as plain text, and the current screen."""
        text = await read_plain_text(self._process, offset, data) if data else ""
        return ScreenView(text, await self.read_screen())

    async def read_screen(self) -> ScreenSnapshot | None:
        """The current screen; None for a program that only writes line by line.

        Of more than 512 KiB since the last call, only the end is read, and the snapshot has a gap.
        """
        if self._screen is None or self._parser is None:
            return None
        async with self._lock:
            await self._catch_up(self._screen, self._parser)
            snapshot = self._screen.snapshot()
        return snapshot if snapshot.is_painted else None

    async def resize(self, terminal: TerminalSize) -> None:
        """Change the size of the terminal."""
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
            # Let other tasks run.
            await asyncio.sleep(0)
