""""""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.executors.escape_codes import ControlSequence, EscapeParser, read_plain_text, strip_escapes
from openskills.executors.protocol import Process
from openskills.executors.spec import Command
from tests.executors.running import shell, starter


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("\x1b[1;31mred\x1b[0m text\r\n", "red text\n"),
        ("\x1b]0;title\x07$ ", "$ "),
        ("10%\r20%\r\n", "10%\r20%\n"),
        ("a\tb\x07\x00\x08c", "a\tbc"),
        ("漢字\x1b[K é", "漢字 é"),
        ("\x1b[2;3H1. one\x1b[3;3H2. two", "1. one\n2. two"),
        ("name:\x1b[5Cvalue", "name: value"),
        ("\x1b[?2004h$ \x1b[?2004l\r", "$ \r"),
        ("\x1b[H\x1b[2J\x1b[Hx", "x"),
        ("line\r\n\x1b[3;1Hx", "line\nx"),
        ("\x1b[?1049hx\x1b[?1049l", "x"),
    ],
)
def test_what_is_left_is_text_to_be_read(data: str, text: str) -> None:
    assert strip_escapes(data.encode()) == text


@given(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"])))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert strip_escapes(text.encode()) == text


SCRIPT = r"printf 'plain \033[1;38;5;208mcolour\033[0m \033]0;a title\007end \033[31mred\033[0m'"
READ = "plain colour end red"


async def _printed(directory: Path, script: str, offsets: list[int]) -> list[str]:
    async with starter(directory) as commands:
        process: Process = await commands.start(Command(shell(script), readable=True))
        await process.wait()
        whole = (await process.read(0, limit=10_000_000)).data
        return [await read_plain_text(process, offset, whole[offset:]) for offset in offsets]


async def test_wherever_a_piece_begins_no_part_of_a_sequence_is_shown(tmp_path: Path) -> None:
    found = await _printed(tmp_path, SCRIPT, list(range(60)))
    assert found[0] == READ
    assert all(READ.endswith(text) for text in found)
    # In the middle of the first colour, and in the middle of the title.
    assert (found[10], found[35]) == ("colour end red", "end red")


async def test_a_piece_may_begin_within_a_very_long_sequence(tmp_path: Path) -> None:
    script = r"printf '\033Pq'; head -c 100000 /dev/zero | tr '\0' A; printf '\033\\after'"
    assert await _printed(tmp_path, script, [0, 1, 2, 50_000, 100_003]) == ["after"] * 5


Heard = tuple[str, object]


class Ear:
    """Writes down what it hears; texts that follow each other are one."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []

    def text(self, text: str) -> None:
        if self.heard and self.heard[-1][0] == "text":
            text = f"{self.heard.pop()[1]}{text}"
        self.heard.append(("text", text))

    def control(self, char: str) -> None:
        self.heard.append(("control", char))

    def escape(self, between: str, final: str) -> None:
        self.heard.append(("escape", (between, final)))

    def sequence(self, found: ControlSequence) -> None:
        self.heard.append(("sequence", (found.prefix, found.numbers, found.intermediate, found.final)))


def heard(*pieces: bytes) -> list[Heard]:
    ear = Ear()
    parser = EscapeParser(ear)
    for piece in pieces:
        parser.feed(piece)
    return ear.heard


def test_text_controls_escapes_and_sequences_are_told_apart() -> None:
    assert heard(b"a\xc3\xa9\r\n\x1b7\x1b(0\x1b[?25;1049hz\x1b[;5H\x1b[m") == [
        ("text", "aé"),
        ("control", "\r"),
        ("control", "\n"),
        ("escape", ("", "7")),
        ("escape", ("(", "0")),
        ("sequence", ("?", (25, 1049), "", "h")),
        ("text", "z"),
        ("sequence", ("", (0, 5), "", "H")),
        ("sequence", ("", (), "", "m")),
    ]


def test_strings_are_swallowed_up_to_their_end() -> None:
    for string in (
        b"\x1b]0;title\x07",
        b"\x1b]8;;http://x\x1b\\",
        b"\x1bPq#0\x07\n#1\x1b\\",
        b"\x1b_app\x1b\\",
        b"\xc2\x9dtitle\xc2\x9c",
        b"\x1b]0;given up\x18",
    ):
        found = [one for one in heard(b"a" + string + b"b") if one != ("escape", ("", "\\"))]
        assert "".join(str(text) for _, text in found) == "ab", string


def test_a_title_without_an_end_hides_only_its_line() -> None:
    assert heard(b"\x1b]0;oops\nvisible") == [("control", "\n"), ("text", "visible")]


def test_what_is_not_a_sequence_is_left_and_what_follows_is_shown() -> None:
    assert heard(b"\x1b[12\x18a") == [("text", "a")]
    assert heard(b"\x1b[12\x1b[1Aa") == [("sequence", ("", (1,), "", "A")), ("text", "a")]
    assert heard(b"\x1b[1?2ha") == [("text", "a")]
    assert heard("\x1b[1é".encode()) == [("text", "é")]
    assert heard("\x1bé".encode()) == [("text", "é")]


def test_a_control_within_a_sequence_is_heard_and_the_sequence_goes_on() -> None:
    assert heard(b"\x1b[2\r;3H") == [("control", "\r"), ("sequence", ("", (2, 3), "", "H"))]


def test_short_forms_mean_the_same_as_the_long_ones() -> None:
    assert heard("\x9b5A\x85".encode()) == [("sequence", ("", (5,), "", "A")), ("escape", ("", "E"))]


def test_numbers_have_a_bound_and_so_has_their_number() -> None:
    assert heard(b"\x1b[" + b"9" * 200 + b"A") == [("sequence", ("", (9_999,), "", "A"))]
    numbers = heard(b"\x1b[" + b"1;" * 100 + b"m")
    assert numbers == [("sequence", ("", (1,) * 16, "", "m"))]
    assert heard(b"\x1b[" + b"1" * 300 + b"A!") == [("text", "!")]


def test_what_is_not_utf_8_is_shown_as_such() -> None:
    assert heard(b"a\xff\xc3\x1b7") == [("text", "a��"), ("escape", ("", "7"))]


def test_after_a_reset_nothing_is_pending() -> None:
    ear = Ear()
    parser = EscapeParser(ear)
    for unfinished in (b"\xe6\xbc", b"\x1b", b"\x1b[1", b"\x1b]0;", b"\x1bP"):
        parser.feed(unfinished)
        parser.reset()
    parser.feed(b"x")
    assert ear.heard == [("text", "x")]


_PIECES = st.sampled_from(
    [
        b"\x1b",
        b"[",
        b"]0;",
        b"P",
        b"\x1b[?1049h",
        b"12;34",
        b"H",
        b"m",
        b"\x07",
        b"\x1b\\",
        b"\r\n",
        b"\x18",
        b"\xc2\x9b",
    ]
)


@given(st.lists(_PIECES | st.binary(max_size=6), max_size=30).map(b"".join), st.lists(st.integers(1, 5), max_size=60))
def test_it_does_not_matter_where_the_stream_is_cut(data: bytes, sizes: list[int]) -> None:
    pieces: list[bytes] = []
    rest = data
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert heard(*pieces, rest) == heard(data)
