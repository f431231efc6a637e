"""Terminal emulator: what a program's output looks like on a screen, after all cursor movements.

It behaves like xterm for text. Colors are ignored and queries are not answered. `ScreenViewer` follows the output of a
process and updates its screen only on request.
"""

import asyncio
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

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


_FIRST_LINE_CHAR, _LINE_CHARS = "\x5f", " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"
_DRAWING_SET = "0"
_DRAWING = {ord(_FIRST_LINE_CHAR) + place: char for place, char in enumerate(_LINE_CHARS)}

ErasePart = Literal["after", "before", "all"]
_ERASE_PARTS: Mapping[int, ErasePart] = {0: "after", 1: "before", 2: "all"}
_STOPS = b"\1" + bytes(7)
"""A tab stop in every eighth column."""
_CursorState = tuple[int, int, bool, bool, tuple[bool, bool], bool]
"""What is saved and restored: row, column, a pending wrap, origin mode, and the character sets."""
_INITIAL_CURSOR: _CursorState = (0, 0, False, False, (False, False), False)


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


class Screen:
    """Rows and columns with a cursor. Every method is bounded by the size, whatever its arguments.

    Implements `EscapeSink` for its own parser. Unknown sequences are ignored.
    """

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        self.rows, self.columns = rows, columns
        self._main, self._other = Grid(rows, columns), Grid(rows, columns)
        self._parser = EscapeParser(self)
        self.reset()

    def reset(self) -> None:
        """Return to the initial state."""
        self._main.clear()
        self._other.clear()
        self._grid = self._main
        self._saved = {False: _INITIAL_CURSOR, True: _INITIAL_CURSOR}
        self._painted = 0
        self._has_gap = False
        self._last = ""
        self._reset_stops()
        self.soft_reset()
        self._set_cursor(0, 0)

    def soft_reset(self) -> None:
        """Reset all modes; text and cursor stay."""
        self.auto_wrap, self.insert_mode, self.newline_mode = True, False, False
        self._in_region, self._drawing, self._second_set = False, (False, False), False
        self._top, self._bottom = 0, self.rows - 1
        self._saved[self.is_alternate] = _INITIAL_CURSOR

    def _reset_stops(self) -> None:
        self._stops = bytearray(_STOPS * (self.columns // len(_STOPS) + 1))[: self.columns]

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
        self._parser.reset()

    def resize(self, rows: int, columns: int) -> None:
        """Change the size, cutting off what does not fit."""
        self.rows, self.columns = rows, columns
        self._main.resize(rows, columns)
        self._other.resize(rows, columns)
        self._reset_stops()
        self._top, self._bottom = 0, rows - 1
        self._set_cursor(self._row, self._column)

    # Output

    def feed(self, data: bytes) -> None:
        """Apply the next bytes of a program's output."""
        self._parser.feed(data)

    def control(self, char: str) -> None:
        if act := self._CONTROLS.get(char):
            act(self)

    def escape(self, between: str, final: str) -> None:
        if between in ("(", ")"):
            self.designate(second=between == ")", drawing=final == _DRAWING_SET)
        elif not between and (act := self._ESCAPES.get(final)):
            act(self)

    def sequence(self, found: ControlSequence) -> None:
        if act := self._SEQUENCES.get(found.prefix + found.intermediate + found.final):
            act(self, found)

    def text(self, text: str) -> None:
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

    def _repeat(self, found: ControlSequence) -> None:
        if self._last:
            self.text(self._last * min(found.count, self.columns))

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

    def move_up(self, count: int) -> None:
        """Move up, within the region if the cursor is in it."""
        self._mark_painted()
        self._set_cursor(max(self._row - count, self._top if self._row >= self._top else 0), self._column)

    def move_down(self, count: int) -> None:
        """Move down, within the region if the cursor is in it."""
        last = self._bottom if self._row <= self._bottom else self.rows - 1
        self._set_cursor(min(self._row + count, last), self._column)

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
            self._grid.scroll_down(self._top, self._bottom, 1)
        else:
            self.move_up(1)

    def tab(self, count: int = 1) -> None:
        """Move to the next tab stop, or to the last column."""
        column = self._column
        for _ in range(min(count, self.columns)):
            column = self._stops.find(1, column + 1) % self.columns
        self._set_cursor(self._row, column)

    def tab_back(self, count: int) -> None:
        """Move to the previous tab stop, or to the first column."""
        column = self._column
        for _ in range(min(count, self.columns)):
            column = max(self._stops.rfind(1, 0, column), 0)
        self._set_cursor(self._row, column)

    def _set_stop(self) -> None:
        self._stops[self._column] = 1

    def _clear_stops(self, found: ControlSequence) -> None:
        if found.number() == 3:
            self._stops = bytearray(self.columns)
        elif not found.number():
            self._stops[self._column] = 0

    def save_cursor(self) -> None:
        """Save the cursor, separately for each screen."""
        state = (self._row, self._column, self._wraps, self._in_region, self._drawing, self._second_set)
        self._saved[self.is_alternate] = state

    def restore_cursor(self) -> None:
        """Restore the saved cursor."""
        row, column, wraps, self._in_region, self._drawing, self._second_set = self._saved[self.is_alternate]
        self._set_cursor(row, column)
        self._wraps = wraps and self._column == self.columns - 1

    def _move_to(self, found: ControlSequence) -> None:
        self.move_to(found.count - 1, max(found.number(1), 1) - 1)

    def _move_lines(self, found: ControlSequence) -> None:
        move = self.move_down if found.final == "E" else self.move_up
        move(found.count)
        self.carriage_return()

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

    def _erase(self, found: ControlSequence) -> None:
        if part := _ERASE_PARTS.get(found.number()):
            erase = self.erase_in_display if found.final == "J" else self.erase_in_line
            erase(part)

    def _edit(self, change: Callable[[int, int, int], None], number: int) -> None:
        """Change the row from the cursor on."""
        self._wraps = False
        change(self._row, self._column, number)

    def _shift_lines(self, scroll: Callable[[int, int, int], None], count: int) -> None:
        """Insert or remove rows at the cursor's row, within the region."""
        if self._top <= self._row <= self._bottom:
            scroll(self._row, self._bottom, count)
            self.carriage_return()

    def scroll_up(self, count: int) -> None:
        """Scroll the region up."""
        if not self.is_alternate and self._bottom - self._top == self.rows - 1:
            self._painted = max(self._painted - count, 0)
        self._grid.scroll_up(self._top, self._bottom, count)

    # Modes

    def set_region(self, top: int, bottom: int) -> None:
        """Restrict scrolling to these rows (from 0, inclusive). A region has at least two rows."""
        bottom = min(bottom, self.rows - 1)
        if 0 <= top < bottom:
            self._top, self._bottom = top, bottom
            self.move_to(0, 0)

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

    def _set_modes(self, found: ControlSequence) -> None:
        for number in found.numbers:
            if number == 4:
                self.insert_mode = found.final == "h"
            elif number == 20:
                self.newline_mode = found.final == "h"

    def _set_private_modes(self, found: ControlSequence) -> None:
        on = found.final == "h"
        for number in found.numbers:
            match number:
                case 6:
                    self._in_region = on
                    self.move_to(0, 0)
                case 7:
                    self.auto_wrap = on
                case 47:
                    self.use_alternate(on, clear=False)
                case 1047:
                    self.use_alternate(on, clear=not on)
                case 1048:
                    (self.save_cursor if on else self.restore_cursor)()
                case 1049 if on != self.is_alternate:
                    self._switch_screen(on)
                case _:
                    pass

    def _switch_screen(self, on: bool) -> None:
        if on:
            self.save_cursor()
        self.use_alternate(on, clear=on)
        if not on:
            self.restore_cursor()

    def _mark_painted(self) -> None:
        # Painted rows remain until they have scrolled away or are erased.
        if not self.is_alternate:
            self._painted = self.rows

    _CONTROLS: ClassVar[Mapping[str, Callable[["Screen"], None]]] = {
        "\b": lambda self: self._set_cursor(self._row, self._column - 1),
        "\t": lambda self: self.tab(),
        **dict.fromkeys("\n\v\f", lambda self: self.line_feed()),
        "\r": lambda self: self.carriage_return(),
        "\x0e": lambda self: self.shift(second=True),
        "\x0f": lambda self: self.shift(second=False),
    }

    _ESCAPES: ClassVar[Mapping[str, Callable[["Screen"], None]]] = {
        "7": lambda self: self.save_cursor(),
        "8": lambda self: self.restore_cursor(),
        "D": lambda self: self.index(),
        "E": lambda self: self.next_line(),
        "H": lambda self: self._set_stop(),
        "M": lambda self: self.reverse_index(),
        "c": lambda self: self.reset(),
    }

    _SEQUENCES: ClassVar[Mapping[str, Callable[["Screen", ControlSequence], None]]] = {
        "@": lambda self, found: self._edit(self._grid.insert, found.count),
        "A": lambda self, found: self.move_up(found.count),
        **dict.fromkeys("Be", lambda self, found: self.move_down(found.count)),
        **dict.fromkeys("Ca", lambda self, found: self._set_cursor(self._row, self._column + found.count)),
        "D": lambda self, found: self._set_cursor(self._row, self._column - found.count),
        **dict.fromkeys("EF", lambda self, found: self._move_lines(found)),
        **dict.fromkeys("G`", lambda self, found: self._set_cursor(self._row, found.count - 1)),
        **dict.fromkeys("Hf", lambda self, found: self._move_to(found)),
        "I": lambda self, found: self.tab(found.count),
        **dict.fromkeys(("J", "?J", "K", "?K"), lambda self, found: self._erase(found)),
        "L": lambda self, found: self._shift_lines(self._grid.scroll_down, found.count),
        "M": lambda self, found: self._shift_lines(self._grid.scroll_up, found.count),
        "P": lambda self, found: self._edit(self._grid.delete, found.count),
        "S": lambda self, found: self.scroll_up(found.count),
        "T": lambda self, found: self._grid.scroll_down(self._top, self._bottom, found.count),
        "X": lambda self, found: self._edit(self._grid.erase, self._column + found.count),
        "Z": lambda self, found: self.tab_back(found.count),
        "b": lambda self, found: self._repeat(found),
        "d": lambda self, found: self.move_to(found.count - 1, self._column),
        "g": lambda self, found: self._clear_stops(found),
        **dict.fromkeys("hl", lambda self, found: self._set_modes(found)),
        **dict.fromkeys(("?h", "?l"), lambda self, found: self._set_private_modes(found)),
        "r": lambda self, found: self.set_region(found.count - 1, (found.number(1) or self.rows) - 1),
        "s": lambda self, _: self.save_cursor(),
        "u": lambda self, _: self.restore_cursor(),
        "!p": lambda self, _: self.soft_reset(),
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
        if self._screen is None:
            return None
        async with self._lock:
            await self._catch_up(self._screen)
            snapshot = self._screen.snapshot()
        return snapshot if snapshot.is_painted else None

    async def resize(self, terminal: TerminalSize) -> None:
        """Change the size of the terminal."""
        if terminal.rows * terminal.columns > MAX_CELLS:
            self._screen = None
        elif self._screen is not None:
            async with self._lock:
                await self._catch_up(self._screen)
                self._screen.resize(terminal.rows, terminal.columns)

    async def _catch_up(self, screen: Screen) -> None:
        printed = (await self._process.read(_BEYOND, limit=0)).offset
        begin = max(self._offset, printed - _BACKLOG)
        while self._offset < printed:
            output = await self._process.read(begin, limit=min(_SLICE, printed - begin))
            if output.offset > self._offset:
                screen.mark_gap()
            screen.feed(output.data)
            self._offset = begin = output.next_offset
            # Let other tasks run.
            await asyncio.sleep(0)
