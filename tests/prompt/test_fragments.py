"""Parts of documents."""

import pytest

from openskills.prompt.fragments import Lines, lines_in, lines_of, parse_fragment


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("a.md", ("a.md", None)),
        ("a.md#L3", ("a.md", Lines(3))),
        ("a.md#L3-L5", ("a.md", Lines(3, 5))),
        ("a.md#L3-5", ("a.md", Lines(3, 5))),
        ("a.md#L3C20", ("a.md", Lines(3, None, 20))),
        ("a.md#L3C20-L4", ("a.md", Lines(3, 4, 20))),
        ("a.md#L3C0", ("a.md#L3C0", None)),
        ("a.md#L0", ("a.md#L0", None)),
        ("a.md#l3", ("a.md#l3", None)),
        ("#L3", ("#L3", None)),
        ("a#L1#L2", ("a#L1", Lines(2))),
        ("a.md#L" + "9" * 30, ("a.md#L" + "9" * 30, None)),
    ],
)
def test_lines_are_named_after_the_path(name: str, parsed: object) -> None:
    assert parse_fragment(name) == parsed


def test_both_ends_are_included_and_too_much_is_nothing() -> None:
    text = "one\ntwo\nthree"
    assert lines_of(text, Lines(2, 3)) == "two\nthree"
    assert lines_of(text, Lines(2)) == "two\nthree"
    assert lines_of(text, Lines(1, 1)) == "one\n"
    assert lines_of(text, Lines(2, None, 3)) == "o\nthree"
    assert lines_of(text, Lines(9)) == lines_of(text, Lines(3, 2)) == ""


def test_only_a_newline_ends_a_line() -> None:
    assert lines_in("a\u2028b\x0cc\r\nd") == ["a\u2028b\x0cc\r\n", "d"]
    assert lines_in("a\n") == ["a\n"]
    assert lines_in("") == []
    assert lines_in("\n\n") == ["\n", "\n"]
