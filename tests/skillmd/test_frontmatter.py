import pytest

from openskills.skillmd.fences import cut
from openskills.skillmd.frontmatter import FrontMatter, read_front
from tests.skillmd.work import is_linear


def front_of(*lines: str, line_end: str = "\n") -> FrontMatter:
    return read_front(cut(line_end.join(("---", *lines, "---", ""))))


def rules_of(front: FrontMatter) -> list[tuple[str, int | None, int | None]]:
    return [(problem.rule, problem.line, problem.column) for problem in front.problems]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_the_place_of_a_value_is_that_of_its_text_in_the_file(line_end: str) -> None:
    front = front_of("a: b", 'metadata: {c: "d e"}', "f: g", line_end=line_end)
    place = front.value("metadata", "c")
    assert place
    assert (place.line, place.column, place.style) == (3, 15, '"')
    assert front.source(place) == '"d e"'
    assert front.rest_of_line(place) == "}"
    key = front.key("f")
    assert key
    assert (key.line, key.column) == (4, 1)


def test_a_line_separator_inside_a_value_does_not_shift_the_lines_after_it() -> None:
    front = front_of('a: "b\u2028c"', "d: e", "d: f")
    assert rules_of(front) == [("yaml-duplicate-key", 4, 1)]
    key = front.key("d")
    assert key
    assert (key.line, key.column) == (4, 1)


def test_places_are_known_after_a_recovery_too() -> None:
    front = front_of("description: a: b", "metadata:", "  c: 1.0", "  d: e: f", "license: MIT")
    assert front.recovered
    expected = {("description",): "a: b", ("metadata", "c"): "1.0", ("metadata", "d"): "e: f", ("license",): "MIT"}
    for path, source in expected.items():
        place = front.value(*path)
        assert place
        assert front.source(place) == source
    assert front.key("metadata", "c") is not None
    assert front.value("metadata", "x") is None


def test_a_scalar_is_unquoted_only_when_it_is_bare_there() -> None:
    front = front_of("version: 1.0", "metadata:", '  a: "1.0"', "  b: '2'", "  c: |-", "    3")
    assert front.unquoted("1.0", "version") is not None
    assert front.unquoted("1.0", "metadata", "a") is None
    assert front.unquoted("2", "metadata", "b") is None
    assert front.unquoted("3", "metadata", "c") is None


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
    place = front.value("metadata", "c")
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
    front = read_front(cut("text"))
    assert (front.readable, front.fields, front.key("name"), front.text) == (False, {}, None, "")
    assert front_of("a: &b c").value("a") is None


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
        front_of("a:", *(line.format(number) for number in range(size))).value("a")

    assert is_linear(read, 2_000)
