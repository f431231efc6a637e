import pytest

from openskills.skillmd.lines import Lines, count_lines


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_counts_once(line_end: str) -> None:
    text = line_end.join(["ab", "", "c\u2028d\x85e"])
    assert count_lines(text, 0, len(text)) == 2
    lines = Lines(text)
    assert lines.at(0) == (1, 1)
    assert lines.at(1) == (1, 2)
    assert lines.at(2 + len(line_end)) == (2, 1)
    assert lines.at(text.index("e")) == (3, 5)
    assert lines.at(len(text)) == (3, 6)


def test_only_line_ends_between_the_offsets_are_counted() -> None:
    assert count_lines("a\nb\nc\n", 2, 4) == 1
    assert count_lines("a\r\nb\r\nc", 3, 6) == 1


def test_an_empty_text_has_one_line() -> None:
    assert Lines("").at(0) == (1, 1)
