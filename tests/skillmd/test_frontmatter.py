""""""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.skillmd.frontmatter import (
    FrontMatter,
    LineIndex,
    count_lines,
    decode,
    read_front_matter,
    size_problem,
    split_document,
)
from openskills.skillmd.problem import Problem
from openskills.skillmd.yaml import MAX_FILE_BYTES, MAX_FRONTMATTER_CHARACTERS, SourcePosition
from tests.skillmd.strategies import relaxed
from tests.skillmd.work import is_linear


def front_of(*lines: str, line_end: str = "\n") -> FrontMatter:
    return read_front_matter(split_document(line_end.join(("---", *lines, "---", ""))))


def rules_of(front: FrontMatter) -> list[tuple[str, int | None, int | None]]:
    return [(problem.rule, problem.line, problem.column) for problem in front.problems]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_the_place_of_a_value_is_that_of_its_text_in_the_file(line_end: str) -> None:
    front = front_of("a: b", 'metadata: {c: "d e"}', "f: g", line_end=line_end)
    place = front.find_value("metadata", "c")
    assert place
    assert (place.line, place.column, place.style) == (3, 15, '"')
    assert front.read_source(place) == '"d e"'
    assert front.rest_of_line(place) == "}"
    key = front.find_key("f")
    assert key
    assert (key.line, key.column) == (4, 1)


def test_a_line_separator_inside_a_value_does_not_shift_the_lines_after_it() -> None:
    front = front_of('a: "b\u2028c"', "d: e", "d: f")
    assert rules_of(front) == [("yaml-duplicate-key", 4, 1)]
    key = front.find_key("d")
    assert key
    assert (key.line, key.column) == (4, 1)


def test_places_are_known_after_a_recovery_too() -> None:
    front = front_of("description: a: b", "metadata:", "  c: 1.0", "  d: e: f", "license: MIT")
    assert "yaml-unquoted" in {rule for rule, _, _ in rules_of(front)}
    expected = {("description",): "a: b", ("metadata", "c"): "1.0", ("metadata", "d"): "e: f", ("license",): "MIT"}
    for path, source in expected.items():
        place = front.find_value(*path)
        assert place
        assert front.read_source(place) == source
    assert front.find_key("metadata", "c") is not None
    assert front.find_value("metadata", "x") is None


def test_a_scalar_is_unquoted_only_when_it_is_bare_there() -> None:
    front = front_of("version: 1.0", "metadata:", '  a: "1.0"', "  b: '2'", "  c: |-", "    3")
    assert front.find_unquoted("1.0", "version") is not None
    assert front.find_unquoted("1.0", "metadata", "a") is None
    assert front.find_unquoted("2", "metadata", "b") is None
    assert front.find_unquoted("3", "metadata", "c") is None


def test_a_control_character_is_named_with_its_place() -> None:
    front = front_of("a: b", "c: d\x7fe", line_end="\r\n")
    assert rules_of(front) == [("text-control", 3, 5)]
    assert "U+007F" in front.problems[0].message
    assert not front.readable


def test_tabs_that_indent_become_blanks_and_every_offset_stays() -> None:
    front = front_of("metadata:", "\ta: b", "\tc: 1.0")
    assert front.fields == {"metadata": {"a": "b", "c": "1.0"}}
    assert rules_of(front) == [("yaml-tab", 3, 1)]
    fix = front.problems[0].fix
    assert fix
    assert [(edit.start, edit.replacement) for edit in fix.edits] == [(14, "  "), (20, "  ")]
    place = front.find_value("metadata", "c")
    assert place
    assert (place.line, place.column, place.start) == (4, 5, 24)


def test_a_tab_between_lines_that_are_indented_with_blanks_stands_for_one() -> None:
    front = front_of("metadata:", " a: b", "\tc: d")
    assert front.fields == {"metadata": {"a": "b", "c": "d"}}
    fix = front.problems[0].fix
    assert fix
    assert fix.edits[0].replacement == " "


def test_tabs_and_an_unquoted_colon_are_both_reported() -> None:
    front = front_of("metadata:", "\ta: b: c")
    assert front.fields == {"metadata": {"a": "b: c"}}
    assert rules_of(front) == [("yaml-tab", 3, 1), ("yaml-unquoted", 3, 5)]


def test_fields_that_only_clash_in_their_layout_are_read_one_by_one() -> None:
    front = front_of(" name: x", "description: y")
    assert front.fields == {"name": "x", "description": "y"}
    assert rules_of(front) == [("yaml-layout", 3, 1)]


def test_without_front_matter_nothing_is_readable_and_nothing_has_a_place() -> None:
    front = read_front_matter(split_document("text"))
    assert (front.readable, front.fields, front.find_key("name"), front.text) == (False, {}, None, "")
    assert front_of("a: &b c").find_value("a") is None


def test_many_faults_of_a_kind_are_summed_up_and_mended_together() -> None:
    front = front_of(*(f"k{number}: a: b" for number in range(500)))
    assert len(front.problems) == 21
    assert front.problems[-1].line == 22
    assert "480 more" in front.problems[-1].message
    fix = front.problems[-1].fix
    assert fix
    assert len(fix.edits) == 480
    assert len(front_of(*["a: b"] * 500).problems) == 21


@pytest.mark.parametrize("line", ["k{}: a: b", "k{}: 1", "metadata: {}", "  - {}", "", "k{}: [", "# {}", "\tk{}: a"])
def test_reading_costs_work_in_proportion_to_the_size(line: str) -> None:
    def read(size: int) -> None:
        front_of("a:", *(line.format(number) for number in range(size))).find_value("a")

    assert is_linear(read, 2_000)


def refused(data: bytes) -> Problem:
    text, problem = decode(data)
    assert text == ""
    assert problem is not None
    return problem


@relaxed
@given(st.binary())
def test_bytes_become_their_text_or_a_problem(data: bytes) -> None:
    text, problem = decode(data)
    assert (text.encode() == data) != (problem is not None) or (not data and problem is None)


def test_utf8_text_is_given_unchanged_with_its_byte_order_mark() -> None:
    assert decode("\ufeffnäme\r\n".encode()) == ("\ufeffnäme\r\n", None)


def test_a_byte_that_is_not_utf8_is_named_with_line_and_column() -> None:
    problem = refused("first\r\nça\rcaf".encode() + b"\xe9\n")
    assert (problem.rule, problem.line, problem.column) == ("text-encoding", 3, 4)
    assert "0xe9" in problem.message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_utf16_is_refused(encoding: str) -> None:
    assert refused("\ufeff---\nname: ü\n".encode(encoding)).rule in ("text-encoding", "text-nul")


def test_utf16_with_a_mark_is_called_by_its_name() -> None:
    assert "UTF-16" in refused("---\n".encode("utf-16")).message


def test_a_nul_is_refused_with_its_place() -> None:
    problem = refused(b"one\ntwo\0three")
    assert (problem.rule, problem.line, problem.column) == ("text-nul", 2, 4)


def test_a_file_of_exactly_the_limit_is_read_and_one_byte_more_is_not() -> None:
    assert decode(b"a" * MAX_FILE_BYTES)[1] is None
    problem = refused(b"a" * (MAX_FILE_BYTES + 1))
    assert problem == size_problem(MAX_FILE_BYTES + 1)
    assert "1,048,577" in problem.message


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_front_matter_and_body_are_cut_at_the_fence_lines(line_end: str) -> None:
    text = line_end.join(["---", "name: x", "--- y", "----", " ---", "---\t ", "", "Body", "---", "more", ""])
    halves = split_document(text)
    assert halves.front == line_end.join(["name: x", "--- y", "----", " ---", ""])
    assert text[halves.front_start :].startswith("name")
    assert (halves.front_line, halves.body_line) == (2, 8)
    assert halves.body == "Body\n---\nmore"
    assert halves.problems == ()


@pytest.mark.parametrize("text", ["---\n---", "---\r\n---\r\n", "---\r---\r"])
def test_front_matter_may_be_empty(text: str) -> None:
    halves = split_document(text)
    assert (halves.front, halves.body, halves.problems) == ("", "", ())


def test_a_byte_order_mark_and_blank_lines_are_skipped_and_reported() -> None:
    halves = split_document("\ufeff\n \t\n---\na: b\n---\nBody")
    assert (halves.front, halves.front_start, halves.front_line, halves.body_line) == ("a: b\n", 9, 4, 6)
    assert [problem.rule for problem in halves.problems] == ["text-bom", "frontmatter-first-line"]


def test_a_byte_order_mark_right_before_the_fence_does_not_hide_it() -> None:
    assert split_document("\ufeff---\na: b\n---\n").front == "a: b\n"


def test_without_front_matter_everything_is_body_on_its_own_line() -> None:
    halves = split_document("\n\n# Title\n---\n")
    assert (halves.front, halves.body, halves.body_line) == (None, "# Title\n---", 3)


def test_front_matter_that_is_not_closed_is_reported_at_its_fence() -> None:
    halves = split_document("\n---\nname: x\n ---\n")
    assert halves.front is None
    problem = halves.problems[-1]
    assert (problem.rule, problem.line) == ("frontmatter-unclosed", 2)
    assert halves.body == "name: x\n ---"


def test_an_opening_fence_alone_is_not_closed() -> None:
    assert split_document("---").problems[0].rule == "frontmatter-unclosed"


def test_front_matter_over_the_limit_is_refused_and_the_body_still_found() -> None:
    halves = split_document("---\n" + "a" * MAX_FRONTMATTER_CHARACTERS + "\n---\nBody")
    assert (halves.front, halves.body) == (None, "Body")
    assert halves.problems[0].rule == "frontmatter-size"


def test_an_indented_first_line_of_the_body_keeps_its_indentation() -> None:
    assert split_document("---\n---\n\n    code\n").body == "    code"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_counts_once(line_end: str) -> None:
    text = line_end.join(["ab", "", "c\u2028d\x85e"])
    assert count_lines(text, 0, len(text)) == 2
    lines = LineIndex(text)
    assert lines.at(0) == (1, 1)
    assert lines.at(1) == (1, 2)
    assert lines.at(2 + len(line_end)) == (2, 1)
    assert lines.at(text.index("e")) == (3, 5)
    assert lines.at(len(text)) == (3, 6)


def test_only_line_ends_between_the_offsets_are_counted() -> None:
    assert count_lines("a\nb\nc\n", 2, 4) == 1
    assert count_lines("a\r\nb\r\nc", 3, 6) == 1


def test_an_empty_text_has_one_line() -> None:
    assert LineIndex("").at(0) == (1, 1)


TEXT = "\n---\nname: x\nmetadata:\n  - {a: 'b'}\n---\n"


def test_places_count_lines_columns_and_offsets_of_the_whole_file() -> None:
    places = read_front_matter(split_document(TEXT))
    assert places.find_key("name") == SourcePosition(3, 1, 5, 9)
    assert places.find_value("metadata", 0) == SourcePosition(5, 5, 27, 35)
    assert places.find_value("metadata", 0, "a") == SourcePosition(5, 9, 31, 34, "'")
    assert places.find_value("metadata") == SourcePosition(5, 3, 25, 35)


def test_what_is_not_there_has_no_place() -> None:
    places = read_front_matter(split_document(TEXT))
    assert places.find_key("other") is None
    assert places.find_value("metadata", 1) is None
    assert read_front_matter(split_document("text")).find_key("name") is None


def test_of_a_key_that_stands_twice_the_last_one_has_the_place() -> None:
    place = read_front_matter(split_document("---\na: b\na: c\n---\n")).find_key("a")
    assert place
    assert place.line == 3


def test_places_after_a_recovery_are_exact_in_what_was_sound() -> None:
    places = read_front_matter(split_document("---\na: b: c\nd:\n  e: [f]\n---\n"))
    assert places.find_value("a") == SourcePosition(2, 4, 7, 11)
    assert places.find_key("d", "e") == SourcePosition(4, 3, 17, 18)
    assert places.find_value("d", "e", 0) == SourcePosition(4, 7, 21, 22)
