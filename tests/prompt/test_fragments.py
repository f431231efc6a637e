"""Parts of documents."""

import pytest

from openskills.prompt.fragments import lines_in, lines_of, parse_fragment


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("a.md", ("a.md", None)),
        ("a.md#L3", ("a.md", (3, None))),
        ("a.md#L3-L5", ("a.md", (3, 5))),
        ("a.md#L3-5", ("a.md", (3, 5))),
        ("a.md#L0", ("a.md#L0", None)),
        ("a.md#l3", ("a.md#l3", None)),
        ("#L3", ("#L3", None)),
        ("a#L1#L2", ("a#L1", (2, None))),
        ("a.md#L" + "9" * 30, ("a.md#L" + "9" * 30, None)),
    ],
)
def test_lines_are_named_after_the_path(name: str, parsed: object) -> None:
    assert parse_fragment(name) == parsed


def test_both_ends_are_included_and_too_much_is_nothing() -> None:
    text = "one\ntwo\nthree"
    assert lines_of(text, (2, 3)) == "two\nthree"
    assert lines_of(text, (2, None)) == "two\nthree"
    assert lines_of(text, (1, 1)) == "one\n"
    assert lines_of(text, (9, None)) == lines_of(text, (3, 2)) == ""


def test_only_a_newline_ends_a_line() -> None:
    assert lines_in("a\u2028b\x0cc\r\nd") == ["a\u2028b\x0cc\r\n", "d"]
    assert lines_in("a\n") == ["a\n"]
    assert lines_in("") == []
    assert lines_in("\n\n") == ["\n", "\n"]
