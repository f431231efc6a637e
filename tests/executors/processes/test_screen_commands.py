"""What sequences do to a screen, some by hand, the others as another terminal does them."""

from typing import Any

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openskills.executors.processes.screen import Picture, Screen
from openskills.executors.processes.screen_commands import Commands
from openskills.executors.processes.screen_parser import Parser

ROWS, COLUMNS = 6, 12


def shown(*pieces: bytes, rows: int = ROWS, columns: int = COLUMNS) -> Picture:
    screen = Screen(rows, columns)
    parser = Parser(Commands(screen))
    for piece in pieces:
        parser.feed(piece)
    return screen.picture()


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


@settings(max_examples=150)
@given(_steps())
def test_the_screen_is_the_same_as_that_of_another_terminal(steps: list[str]) -> None:
    oracle, screen = Oracle(), Screen(ROWS, COLUMNS)
    parser = Parser(Commands(screen))
    for wanted in steps:
        for step in (oracle.way_in(), wanted):
            oracle.feed(step)
            parser.feed(step.encode())
            if oracle.is_beyond_the_row:
                oracle.feed("\r")
                parser.feed(b"\r")
        picture = screen.picture()
        assert picture.lines == oracle.lines(), wanted
        assert (picture.row, picture.column) == oracle.cursor(), wanted


@given(_steps().map("".join), st.lists(st.integers(1, 7), max_size=80))
def test_it_does_not_matter_in_which_pieces_output_comes(text: str, sizes: list[int]) -> None:
    data, pieces = text.encode(), list[bytes]()
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    assert shown(*pieces, data) == shown(text.encode())
