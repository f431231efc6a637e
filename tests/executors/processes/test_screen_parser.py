from hypothesis import given
from hypothesis import strategies as st

from openskills.executors.processes.screen_parser import ControlSequence, Parser

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
        self.heard.append(("sequence", (found.mark, found.numbers, found.between, found.final)))


def heard(*pieces: bytes) -> list[Heard]:
    ear = Ear()
    parser = Parser(ear)
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


def test_what_is_no_sequence_is_left_and_what_follows_is_shown() -> None:
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


def test_what_is_no_utf_8_is_shown_as_such() -> None:
    assert heard(b"a\xff\xc3\x1b7") == [("text", "a��"), ("escape", ("", "7"))]


def test_after_a_reset_nothing_is_pending() -> None:
    ear = Ear()
    parser = Parser(ear)
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
