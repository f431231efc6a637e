import pytest

from openskills.skillmd.fences import cut
from openskills.skillmd.limits import MAX_FRONTMATTER_CHARACTERS


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_front_matter_and_body_are_cut_at_the_fence_lines(line_end: str) -> None:
    text = line_end.join(["---", "name: x", "--- y", "----", " ---", "---\t ", "", "Body", "---", "more", ""])
    halves = cut(text)
    assert halves.front == line_end.join(["name: x", "--- y", "----", " ---", ""])
    assert text[halves.front_start :].startswith("name")
    assert (halves.front_line, halves.body_line) == (2, 8)
    assert halves.body == "Body\n---\nmore"
    assert halves.problems == ()


@pytest.mark.parametrize("text", ["---\n---", "---\r\n---\r\n", "---\r---\r"])
def test_front_matter_may_be_empty(text: str) -> None:
    halves = cut(text)
    assert (halves.front, halves.body, halves.problems) == ("", "", ())


def test_a_byte_order_mark_and_blank_lines_are_skipped_and_reported() -> None:
    halves = cut("\ufeff\n \t\n---\na: b\n---\nBody")
    assert (halves.front, halves.front_start, halves.front_line, halves.body_line) == ("a: b\n", 9, 4, 6)
    assert [problem.rule for problem in halves.problems] == ["text-bom", "frontmatter-first-line"]


def test_a_byte_order_mark_right_before_the_fence_does_not_hide_it() -> None:
    assert cut("\ufeff---\na: b\n---\n").front == "a: b\n"


def test_without_front_matter_everything_is_body_on_its_own_line() -> None:
    halves = cut("\n\n# Title\n---\n")
    assert (halves.front, halves.body, halves.body_line) == (None, "# Title\n---", 3)


def test_front_matter_that_is_not_closed_is_reported_at_its_fence() -> None:
    halves = cut("\n---\nname: x\n ---\n")
    assert halves.front is None
    problem = halves.problems[-1]
    assert (problem.rule, problem.line) == ("frontmatter-unclosed", 2)
    assert halves.body == "name: x\n ---"


def test_an_opening_fence_alone_is_not_closed() -> None:
    assert cut("---").problems[0].rule == "frontmatter-unclosed"


def test_front_matter_over_the_limit_is_refused_and_the_body_still_found() -> None:
    halves = cut("---\n" + "a" * MAX_FRONTMATTER_CHARACTERS + "\n---\nBody")
    assert (halves.front, halves.body) == (None, "Body")
    assert halves.problems[0].rule == "frontmatter-size"


def test_an_indented_first_line_of_the_body_keeps_its_indentation() -> None:
    assert cut("---\n---\n\n    code\n").body == "    code"
