"""Texts within a budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import InvalidArgument
from openskills.prompt.fragments import Lines, lines_in
from openskills.prompt.pieces import LEAST, Budget, fitted
from openskills.tokens import estimate


def rest(line: int, character: int) -> str:
    return f"go on at {line}:{character}"


def test_what_fits_is_not_touched() -> None:
    piece = fitted("a.md", "one\r\ntwo", 100, estimate, rest)
    assert (piece.text, piece.lines, piece.cut_after) == ("one\r\ntwo", 2, None)


def test_it_is_cut_after_a_line_and_says_how_to_go_on() -> None:
    piece = fitted("a.md", "a line of text\n" * 1000, 500, estimate, rest)
    assert piece.cut_after is not None
    assert piece.text.endswith(f"[cut after line {piece.cut_after} of 1000; go on at {piece.cut_after + 1}:1]\n")
    assert piece.text.count("a line of text") == piece.cut_after
    assert 450 < piece.tokens <= 500


def test_one_line_that_is_too_long_is_cut_within() -> None:
    piece = fitted("a.md", "x" * 100_000, 200, estimate, rest)
    assert piece.cut_after == 0
    assert f"[cut within line 1 of 1; go on at 1:{piece.text.count('x') + 1}]" in piece.text
    assert 150 < piece.tokens <= 200


def test_without_any_room_the_beginning_is_shown_all_the_same() -> None:
    piece = fitted("a.md", "some words\n" * 1000, -5, estimate, rest)
    assert "some words" in piece.text
    assert piece.tokens <= LEAST


def test_a_budget_that_shows_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"budget\.doc"):
        Budget(doc=3)


@given(st.text(max_size=3000), st.integers(-10, 400))
def test_it_never_costs_more_than_there_is_and_begins_as_the_text_does(text: str, room: int) -> None:
    piece = fitted("a.md", text, room, estimate, rest)
    assert piece.tokens == estimate(piece.text) <= max(room, LEAST)
    if piece.cut_after is not None:
        shown = piece.text.rpartition("\n\n[cut ")[0]
        assert text.startswith(shown)
        assert "".join(lines_in(text)[: piece.cut_after]).rstrip() == shown or piece.cut_after == 0


def test_lines_of_a_part_are_counted_from_the_beginning_of_the_text() -> None:
    text = "a line of text\n" * 1000
    piece = fitted("a.md#L900", text, 300, estimate, rest, Lines(900))
    assert piece.cut_after is not None
    assert f"after line {piece.cut_after} of 1000; go on at {piece.cut_after + 1}:1" in piece.text
    assert fitted("a.md#L999", text, 300, estimate, rest, Lines(999)).text == "a line of text\n" * 2


@given(st.text(alphabet="ab\n ", min_size=1, max_size=2000), st.integers(64, 120))
def test_reading_on_gets_to_the_end_and_loses_nothing(text: str, room: int) -> None:
    seen, place = "", Lines(1)
    for _ in range(200):
        at: list[Lines] = []

        def note(line: int, character: int, at: list[Lines] = at) -> str:
            at.append(Lines(line, None, character))
            return "more"

        piece = fitted("a.md", text, room, estimate, note, place)
        shown, cut, _ = piece.text.rpartition("\n\n[cut ") if piece.cut_after is not None else (piece.text, "", "")
        seen += shown if cut else piece.text
        if not cut:
            break
        place = at[-1]
    assert seen.replace("\n", "").replace(" ", "") == text.replace("\n", "").replace(" ", "")
