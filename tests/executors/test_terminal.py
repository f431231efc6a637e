"""A screen, told what to do by its methods. What sequences do to it is in `test_screen_commands`.

What sequences do to a screen, some by hand, the others as another terminal does them.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openskills.executors.process import HostProcess
from openskills.executors.spec import Command, Limits, TerminalSize
from openskills.executors.terminal import (
    Grid,
    Screen,
    ScreenSnapshot,
    ScreenViewer,
    get_char_width,
)
from tests.executors.running import read_until, shell, starter
from tests.long_form import examples


@pytest.mark.parametrize(
    ("char", "cells"),
    [
        ("a", 1),
        ("é", 1),
        ("─", 1),
        ("漢", 2),
        ("ｱ", 1),
        ("Ａ", 2),
        ("한", 2),
        ("😀", 2),
        ("\u0301", 0),
        ("\u200d", 0),
        ("\ufe0f", 0),
        ("\u1161", 0),
        ("\xad", 1),
        ("\ufffd", 1),
    ],
)
def test_a_character_takes_as_many_cells_as_terminals_give_it(char: str, cells: int) -> None:
    assert get_char_width(char) == cells


def test_text_goes_on_in_the_next_row_and_scrolls_at_the_bottom() -> None:
    screen = Screen(2, 4)
    screen.text("abcdefghij")
    picture = screen.snapshot()
    assert picture.lines == ("efgh", "ij")
    assert (picture.row, picture.column) == (1, 2)


def test_a_full_row_does_not_scroll_before_something_follows() -> None:
    screen = Screen(2, 4)
    screen.text("abcdefgh")
    assert screen.snapshot().lines == ("abcd", "efgh")
    screen.text("i")
    assert screen.snapshot().lines == ("efgh", "i")


def test_without_wrapping_the_last_column_is_written_again() -> None:
    screen = Screen(2, 4)
    screen.auto_wrap = False
    screen.text("abcdefgh\u0301")
    assert screen.snapshot().lines == ("abch\u0301", "")


def test_a_wide_character_that_does_not_fit_goes_to_the_next_row() -> None:
    screen = Screen(2, 4)
    screen.text("abc漢字")
    assert screen.snapshot().lines == ("abc", "漢字")
    narrow = Screen(2, 1)
    narrow.text("漢a字")
    assert narrow.snapshot().lines == ("a", "")


def test_marks_go_to_the_character_before() -> None:
    screen = Screen(1, 4)
    screen.text("\u0301cafe\u0301")
    assert screen.snapshot().lines == ("cafe\u0301",)


def test_boxes_are_drawn_in_either_character_set() -> None:
    screen = Screen(1, 20)
    screen.designate(second=True, drawing=True)
    screen.text("lqk")
    screen.shift(second=True)
    screen.text("lqk")
    screen.designate(second=True, drawing=False)
    screen.text("lqk")
    assert screen.snapshot().lines == ("lqk┌─┐lqk",)


def test_the_other_screen_leaves_the_first_as_it_was() -> None:
    screen = Screen(2, 10)
    screen.text("before")
    screen.use_alternate(True, clear=True)
    assert screen.snapshot().lines == ("", "")
    screen.text("x")
    assert screen.snapshot().is_alternate
    screen.use_alternate(False, clear=False)
    assert screen.snapshot().lines == ("before", "")


def test_only_what_is_put_at_places_makes_a_picture() -> None:
    screen = Screen(3, 10)
    for _ in range(10):
        screen.text("line")
        screen.carriage_return()
        screen.line_feed()
    assert not screen.snapshot().is_painted
    screen.move_to(1, 3)
    assert screen.snapshot().is_painted


def test_a_picture_lasts_until_it_has_scrolled_away_or_is_erased() -> None:
    screen = Screen(3, 10)
    screen.text("x")
    screen.move_up(1)
    for _ in range(4):
        assert screen.snapshot().is_painted
        screen.line_feed()
    screen.line_feed()
    assert not screen.snapshot().is_painted
    screen.move_up(1)
    screen.erase_in_display("all")
    screen.move_to(0, 0)
    assert not screen.snapshot().is_painted


def test_a_gap_is_said_until_everything_is_drawn_again() -> None:
    screen = Screen(3, 10)
    screen.mark_gap()
    assert screen.snapshot().has_gap
    screen.erase_in_display("all")
    assert not screen.snapshot().has_gap


def test_a_smaller_size_cuts_and_a_larger_one_adds() -> None:
    screen = Screen(3, 10)
    screen.text("0123456789abc")
    screen.resize(1, 4)
    assert screen.snapshot().lines == ("0123",)
    assert (screen.snapshot().row, screen.snapshot().column) == (0, 3)
    screen.resize(3, 20)
    screen.move_to(2, 15)
    screen.text("x")
    assert screen.snapshot().lines == ("0123", "", " " * 15 + "x")


def test_a_reset_is_a_new_screen() -> None:
    screen = Screen(3, 10)
    screen.use_alternate(True, clear=True)
    screen.insert_mode = True
    screen.designate(second=False, drawing=True)
    screen.text("x")
    screen.reset()
    assert screen.snapshot() == Screen(3, 10).snapshot()
    screen.text("q")
    assert screen.snapshot().lines[0] == "q"


ROWS, COLUMNS = 6, 12


def shown(*pieces: bytes, rows: int = ROWS, columns: int = COLUMNS) -> ScreenSnapshot:
    screen = Screen(rows, columns)
    for piece in pieces:
        screen.feed(piece)
    return screen.snapshot()


def lines(data: bytes) -> list[str]:
    """The rows up to the last that is not empty."""
    found = list(shown(data).lines)
    while found and not found[-1]:
        found.pop()
    return found


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"one\r\ntwo\x1b[1;6Hthree", ["one  three", "two"]),
        (b"a\x1b[Kb\x1b[31mc\x1b[0md", ["abcd"]),
        (b"ab\tc\bd", ["ab      d"]),
        (b"\x1b(0lqqk\x1b(B lq", ["┌──┐ lq"]),
        (b"\x1b)0a\x0eq\x0fq", ["a─q"]),
        (b"main\x1b[?1049hother\x1b[?1049l!", ["main!"]),
        (b"main\x1b[?47hother\x1b[?47l\x1b[?47h", ["    other"]),
        (b"main\x1b[?1047hother\x1b[?1047l\x1b[?1047h", []),
        (b"ab\x1b[3bc", ["abbbbc"]),
        (b"a\x1b[9999bc", ["a" * 12, "ac"]),
        (b"1\r\n2\r\n3\x1b[2S", ["3"]),
        (b"1\x1b[2T", ["", "", "1"]),
        (b"\x1b[2;4r\x1b[?6h\x1b[1;1Hx\x1b[9;1Hy", ["", "x", "", "y"]),
        (b"\x1b[Ia\x1b[2Zb", ["b       a"]),
        (b"ab\x1b[1048hcd\x1b[?1048h\r\nx\x1b[?1048le", ["abcde", "x"]),
        (b"x\x1b[4;4ry", ["xy"]),
        (b"x\x1b[0;0ry", ["y"]),
        (b"0123456789ab\x1b7\x1b[3;3H\x1b8x", ["0123456789ab", "x"]),
        (b"x\x1bcy", ["y"]),
        (b"x\x1b[!py", ["xy"]),
        (b"\x1b[20hab\nc", ["ab", "c"]),
        (b"0123456789ab\x1b[Kx", ["0123456789ax"]),
        (b"0123456789ab\n\x1b[Ax", ["0123456789ax"]),
        (b"0123456789ab\x1b[?7lx", ["0123456789ax"]),
        (b"a\x1b[>4;1mb\x1b[?2004hc\x1b[?ud\x1b[ qe\x1b[38:2:1:2:3mf", ["abcdef"]),
        (b"a\x1b[cb\x1b[6nc\x1b]11;?\x07d\x05e", ["abcde"]),
        (b"a\x1b[3Jb", ["ab"]),
        (b"a\x1b[9Jb\x1b[9Kc", ["abc"]),
    ],
)
def test_a_sequence_does_what_terminals_do(data: bytes, expected: list[str]) -> None:
    assert lines(data) == expected


def test_the_cursor_is_where_a_program_has_left_it() -> None:
    picture = shown(b"\x1b[3;5Hab")
    assert (picture.row, picture.column) == (2, 6)
    saved = shown(b"\x1b[3;5H\x1b7\x1b[H\x1b8")
    assert (saved.row, saved.column) == (2, 4)
    ours = shown(b"\x1b[2;2H\x1b[s\x1b[?1049h\x1b[5;5H\x1b[?1049l")
    assert (ours.row, ours.column) == (1, 1)


@pytest.mark.parametrize(
    ("data", "is_painted"),
    [
        (b"line\r\n" * 50, False),
        (b"10%\r20%\r30%", False),
        (b"\x1b[31mred\x1b[0m\x1b[K", False),
        (b"$ \x1b[H\x1b[2J\x1b[3J$ ", False),
        (b"x\x1b[2J\x1b[H$ ", False),
        (b"x\x1b[?1049hy", True),
        (b"x\x1b[?1049hy\x1b[?1049l", False),
        (b"one\r\ntwo\x1b[A", True),
        (b"x\x1b[Hy", True),
        (b"\x1b[3;3Hx", True),
        (b"\x1b[3;3Hx" + b"\r\n" * 20, False),
    ],
)
def test_a_picture_is_for_programs_that_paint(data: bytes, is_painted: bool) -> None:
    assert shown(data).is_painted is is_painted


@pytest.mark.parametrize(
    "piece",
    [
        b"\x1b[99999999999999999999@",
        b"\x1b[9999L\x1b[9999M\x1b[9999S\x1b[9999T",
        b"x\x1b[999999999b",
        b"\x1b[9999;9999Hx\x1b[9999D",
        b"\x1bc",
        b"\x1b[?1049h\x1b[2J\x1b[?1049l",
        b"\x1b]" + b"a" * 1000,
        b"\x1b[" + b"1;" * 1000,
        b"\x1bP\x00",
        b"\x1b[9999I\x1b[9999Z\x1bH",
        "漢\u0301".encode(),
        bytes(range(256)),
    ],
)
def test_a_flood_of_anything_is_borne(piece: bytes) -> None:
    flood = piece * (60_000 // len(piece))
    picture = shown(*(flood[at : at + 4096] for at in range(0, len(flood), 4096)), rows=50, columns=200)
    assert len(picture.lines) == 50
    assert sum(map(len, picture.lines)) <= 50 * 200 * 10
    assert picture.row < 50
    assert picture.column < 200


# What both know, and where both agree with xterm.
_NUMBERS = st.integers(0, 15)


@st.composite
def _place(draw: st.DrawFn) -> str:
    return f"\x1b[{draw(_NUMBERS)};{draw(_NUMBERS)}H"


@st.composite
def _move(draw: st.DrawFn) -> str:
    return f"\x1b[{draw(_NUMBERS)}{draw(st.sampled_from('ABCDEFGdae'))}"


@st.composite
def _change(draw: st.DrawFn) -> str:
    return f"{draw(_place())}\x1b[{draw(_NUMBERS)}{draw(st.sampled_from('@LMPX'))}"


@st.composite
def _erase(draw: st.DrawFn) -> str:
    return f"{draw(_place())}\x1b[{draw(st.integers(0, 2))}{draw(st.sampled_from('JK'))}"


@st.composite
def _region(draw: st.DrawFn) -> str:
    top = draw(st.integers(1, 4))
    return f"\x1b[{top};{top + draw(st.integers(1, 4))}r"


_TEXT = st.text(st.sampled_from("abcXYZ 0é─"), min_size=1, max_size=30)
_CONTROL = st.sampled_from(["\r", "\n", "\r\n", "\b", "\t", "\x1bD", "\x1bM", "\x1bH", "\x1b[g", "\x1b[3g"])
_MODE = st.sampled_from(["\x1b[4h", "\x1b[4l", "\x1b[?7l", "\x1b[?7h"])
_NOTHING = st.sampled_from(["\x1b[31;1m", "\x1b[m", "\x1b]0;title\x07", "\x1b]2;title\x1b\\", "\x1b=", "\x07", "\x00"])
_MARK = st.one_of(_TEXT, _move(), _change(), _erase(), _CONTROL)
_STEP = st.one_of(_MARK, _place(), _region(), _MODE, _NOTHING)


@st.composite
def _detour(draw: st.DrawFn) -> list[str]:
    """There and back: who restores the cursor has saved it once."""
    return ["\x1b7", draw(_place()), draw(_MARK), "\r", "\x1b8"]


@st.composite
def _steps(draw: st.DrawFn) -> list[str]:
    steps: list[str] = []
    for found in draw(st.lists(_STEP | _detour(), max_size=30)):
        steps += [found] if isinstance(found, str) else found
    return steps


class Oracle:
    """The terminal of pyte, kept away from what it does unlike xterm."""

    def __init__(self) -> None:
        self.screen: Any = pyte.Screen(COLUMNS, ROWS)
        self._stream: Any = pyte.Stream(self.screen)

    def feed(self, text: str) -> None:
        self._stream.feed(text)
        # What is pushed over the edge by one column would come back.
        for line in self.screen.buffer.values():
            line.pop(COLUMNS, None)

    @property
    def is_beyond_the_row(self) -> bool:
        """After a full row it goes on as if there were a column more, and moves and erases from there."""
        return self.screen.cursor.x == COLUMNS

    def way_in(self) -> str:
        """A move into the region for who is out of it: from there it jumps where xterm does not."""
        region, row = self.screen.margins, self.screen.cursor.y
        return f"\x1b[{region.top + 1};2H" if region and not region.top <= row <= region.bottom else ""

    def lines(self) -> tuple[str, ...]:
        return tuple(line.rstrip() for line in self.screen.display)

    def cursor(self) -> tuple[int, int]:
        return self.screen.cursor.y, self.screen.cursor.x


@settings(max_examples=examples(150))
@given(_steps())
def test_the_screen_is_the_same_as_that_of_another_terminal(steps: list[str]) -> None:
    oracle, screen = Oracle(), Screen(ROWS, COLUMNS)
    for wanted in steps:
        for step in (oracle.way_in(), wanted):
            oracle.feed(step)
            screen.feed(step.encode())
            if oracle.is_beyond_the_row:
                oracle.feed("\r")
                screen.feed(b"\r")
        picture = screen.snapshot()
        assert picture.lines == oracle.lines(), wanted
        assert (picture.row, picture.column) == oracle.cursor(), wanted


@given(_steps().map("".join), st.lists(st.integers(1, 7), max_size=80))
def test_it_does_not_matter_in_which_pieces_output_comes(text: str, sizes: list[int]) -> None:
    data, pieces = text.encode(), list[bytes]()
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    assert shown(*pieces, data) == shown(text.encode())


def row(grid: Grid) -> str:
    return grid.lines()[0]


def grid_of(text: str, columns: int = 8) -> Grid:
    grid = Grid(2, columns)
    grid.put(0, 0, text)
    return grid


def test_text_is_where_it_was_put_and_blank_before() -> None:
    grid = Grid(2, 8)
    assert grid.is_blank
    grid.put(1, 3, "abc")
    assert grid.lines() == ("", "   abc")
    assert not grid.is_blank


def test_erasing_leaves_blanks_and_forgets_those_at_the_end() -> None:
    grid = grid_of("abcdef")
    grid.erase(0, 1, 3)
    assert row(grid) == "a  def"
    grid.erase(0, 3, 8)
    assert row(grid) == "a"


def test_inserted_cells_push_the_last_ones_out() -> None:
    grid = grid_of("abcdefgh")
    grid.insert(0, 1, 3)
    assert row(grid) == "a   bcde"
    grid.insert(0, 0, 8)
    assert row(grid) == ""


def test_deleted_cells_make_the_others_come_nearer() -> None:
    grid = grid_of("abcdefgh")
    grid.delete(0, 1, 3)
    assert row(grid) == "aefgh"
    grid.delete(0, 2, 100)
    assert row(grid) == "ae"


def test_half_of_a_wide_character_is_none() -> None:
    changes: tuple[tuple[Callable[[Grid], None], str], ...] = (
        (lambda grid: grid.put(0, 2, "x"), "a x d"),
        (lambda grid: grid.put(0, 1, "x"), "ax  d"),
        (lambda grid: grid.erase(0, 2, 3), "a   d"),
        (lambda grid: grid.delete(0, 1, 1), "a  d"),
        (lambda grid: grid.insert(0, 2, 1), "a    d"),
        (lambda grid: grid.put_wide(0, 0, "字"), "字  d"),
        (lambda grid: grid.resize(2, 2), "a"),
    )
    for change, expected in changes:
        grid = Grid(2, 8)
        grid.put(0, 0, "a")
        grid.put_wide(0, 1, "漢")
        grid.put(0, 4, "d")
        change(grid)
        assert row(grid) == expected


def test_a_wide_character_that_is_pushed_over_the_edge_is_gone() -> None:
    grid = Grid(2, 4)
    grid.put_wide(0, 2, "漢")
    grid.insert(0, 0, 1)
    assert row(grid) == ""


def test_marks_stand_on_their_character_and_are_bounded() -> None:
    grid = grid_of("e")
    grid.put_wide(0, 1, "漢")
    grid.combine(0, 0, "\u0301")
    grid.combine(0, 2, "\u0301")
    grid.combine(0, 7, "\u0301")
    assert row(grid) == "e\u0301漢\u0301"
    for _ in range(1000):
        grid.combine(0, 0, "\u0301")
    assert len(row(grid)) < 20


def test_lines_scroll_within_a_region() -> None:
    grid = Grid(5, 4)
    for number in range(5):
        grid.put(number, 0, str(number))
    grid.scroll_up(1, 3, 1)
    assert grid.lines() == ("0", "2", "3", "", "4")
    grid.scroll_down(1, 3, 2)
    assert grid.lines() == ("0", "", "", "2", "4")
    grid.scroll_up(1, 3, 9_999)
    assert grid.lines() == ("0", "", "", "", "4")


_PLACE = st.integers(0, 7)
_CHANGES = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 6), st.just("ab")),
    st.tuples(st.just("put_wide"), st.integers(0, 6), st.just("漢")),
    st.tuples(st.just("erase"), _PLACE, st.integers(0, 8)),
    st.tuples(st.just("insert"), _PLACE, st.integers(0, 8)),
    st.tuples(st.just("delete"), _PLACE, st.integers(0, 9)),
)


@given(st.lists(_CHANGES, max_size=30))
def test_after_any_changes_the_line_has_whole_characters_and_fits(changes: list[tuple[str, int, str | int]]) -> None:
    grid = Grid(1, 8)
    for name, column, argument in changes:
        if name == "erase" and isinstance(argument, int) and argument < column:
            continue
        getattr(grid, name)(0, column, argument)
    text = row(grid)
    assert len(text) + text.count("漢") <= 8
    # A character that comes after a wide one is where it was put only if both halves are there.
    grid.put(0, 7, "|")
    text = row(grid)
    assert len(text) + text.count("漢") == 8


def next_stop(screen: Screen, column: int, count: int = 1) -> int:
    screen.move_to(0, column)
    screen.tab(count)
    return screen.snapshot().column


def previous_stop(screen: Screen, column: int, count: int = 1) -> int:
    screen.move_to(0, column)
    screen.tab_back(count)
    return screen.snapshot().column


def test_every_eighth_column_is_a_stop_at_first() -> None:
    screen = Screen(1, 20)
    assert [next_stop(screen, column) for column in (0, 7, 8, 15, 16, 19)] == [8, 8, 16, 16, 19, 19]
    assert [previous_stop(screen, column) for column in (0, 1, 8, 9, 19)] == [0, 0, 0, 8, 16]


def test_any_number_of_tabs_stays_on_the_line() -> None:
    screen = Screen(1, 20)
    assert (next_stop(screen, 0, 9_999), previous_stop(screen, 19, 9_999)) == (19, 0)


def test_stops_can_be_set_and_cleared() -> None:
    screen = Screen(1, 20)
    screen.feed(b"\x1b[9G\x1b[g\x1b[4G\x1bH")
    assert (next_stop(screen, 0), next_stop(screen, 3)) == (3, 16)
    screen.feed(b"\x1b[3g")
    assert (next_stop(screen, 0), previous_stop(screen, 19)) == (19, 0)


SIZE = TerminalSize(5, 20)


@asynccontextmanager
async def painted(directory: Path, script: str, limits: Limits | None = None) -> AsyncGenerator[HostProcess]:
    """A command that has printed everything before it says `ready`, and waits."""
    async with starter(directory) as commands:
        command = Command(
            shell(f"stty -echo; {script}; printf 're''ady'; read"), terminal=SIZE, limits=limits or Limits(grace=0.1)
        )
        process = await commands.start(command)
        await read_until(process, b"ready")
        yield process
        await process.kill()


async def test_a_program_that_paints_has_a_picture(tmp_path: Path) -> None:
    async with painted(tmp_path, r"printf '\033[?1049h\033[2;3Hmenu\033[4;1H'") as process:
        picture = await ScreenViewer(process, SIZE).read_screen()
        assert picture is not None
        assert picture.lines == ("", "  menu", "", "ready", "")
        assert (picture.row, picture.column) == (3, 5)


async def test_a_program_that_writes_lines_has_none(tmp_path: Path) -> None:
    async with painted(tmp_path, r"printf '\033[31mline\033[0m\n'") as process:
        view = await ScreenViewer(process, SIZE).view_output(0, b"\x1b[31mline\x1b[0m\r\n")
        assert (view.text, view.screen) == ("line\n", None)


async def test_what_others_read_does_not_matter_and_looks_at_the_same_time_agree(tmp_path: Path) -> None:
    async with painted(tmp_path, r"printf '\033[2;3Hx'; seq -s ' ' 5000; printf '\033[1;1Hy'") as process:
        viewer = ScreenViewer(process, SIZE)
        await process.read(0, limit=7)
        pictures = await asyncio.gather(*(viewer.read_screen() for _ in range(3)))
        assert pictures[0] is not None
        assert pictures[0].lines[0].startswith("yready")
        assert pictures == [pictures[0]] * 3


async def test_of_a_flood_the_end_is_looked_at_and_the_gap_is_said(tmp_path: Path) -> None:
    flood = r"printf '\033[?1049h'; yes | head -c 100000; printf '\033[3;1H'"
    async with painted(tmp_path, flood, Limits(output_bytes=2_000, grace=0.1)) as process:
        viewer = ScreenViewer(process, SIZE)
        first = await viewer.read_screen()
        # The change to another screen was in what is lost.
        assert first is not None
        assert (first.has_gap, first.is_alternate) == (True, False)
        assert first.lines[2] == "ready"
        assert await viewer.read_screen() == first


async def test_after_a_gap_nothing_of_what_was_before_is_pending(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        paint = r"printf '\033[2;2H\033Pphase1'; read; head -c 100000 /dev/zero | tr '\0' x; printf '\033[3;1Hready'"
        limits = Limits(output_bytes=2_000, grace=0.1)
        process = await commands.start(Command(shell(f"{paint}; read"), terminal=SIZE, limits=limits))
        viewer = ScreenViewer(process, SIZE)
        await read_until(process, b"phase1")
        before = await viewer.read_screen()
        assert before is not None
        assert before.lines == ("",) * 5
        await process.write(b"\n")
        await read_until(process, b"ready")
        after = await viewer.read_screen()
        assert after is not None
        assert (after.lines[0], after.lines[2][:5], after.has_gap) == ("x" * 20, "ready", True)
        await process.kill()


async def test_a_picture_has_the_new_size_after_a_resize(tmp_path: Path) -> None:
    async with painted(tmp_path, r"printf '\033[2;3H'") as process:
        viewer = ScreenViewer(process, SIZE)
        await viewer.resize(TerminalSize(3, 4))
        picture = await viewer.read_screen()
        assert picture is not None
        assert picture.lines == ("", "  re", "")
        await viewer.resize(TerminalSize(60_000, 60_000))
        assert await viewer.read_screen() is None


async def test_a_huge_terminal_has_no_picture(tmp_path: Path) -> None:
    async with painted(tmp_path, r"printf '\033[2;3H'") as process:
        assert await ScreenViewer(process, TerminalSize(65_000, 65_000)).read_screen() is None
