""""""

import pytest
from hypothesis import example, given

from openskills.skillmd.yaml import MAX_DEPTH, MAX_KEYS, FrontMatterError, YamlSpans, read_simple_yaml, read_yaml
from tests.skillmd.strategies import fronts, relaxed

FRONT = """name: pdf-tools
description: Merge PDF files, see http://example.org/#top. Use when asked.
empty:
metadata:
  author: "Jane Doe"
  version: '1.0'
  nothing:
license: null
"""


@relaxed
@given(fronts)
@example("a: b \nc: d:e\n")
@example("a:\n  b: c\nd:\n")
@example("a: \"\"\nb: ''\n")
@example("a: x#y\nb: é\n")
@example("a:  b\n")
@example("a: b\n\n")
def test_the_quick_reader_agrees_with_the_yaml_parser_wherever_it_answers(front: str) -> None:
    simple = read_simple_yaml(front)
    if simple is not None:
        tree = read_yaml(front)
        assert simple == tree.fields
        assert not tree.duplicates


def test_the_common_shape_is_read_without_the_yaml_parser() -> None:
    assert read_simple_yaml(FRONT) == {
        "name": "pdf-tools",
        "description": "Merge PDF files, see http://example.org/#top. Use when asked.",
        "empty": None,
        "metadata": {"author": "Jane Doe", "version": "1.0", "nothing": None},
        "license": None,
    }
    assert read_simple_yaml(FRONT.replace("\n", "\r\n")) == read_simple_yaml(FRONT)


def test_whatever_is_not_plainly_simple_is_left_to_the_yaml_parser() -> None:
    for front in (
        "",
        "a: b: c\n",
        "a: b #c\n",
        "a: b\n  c: d\n",
        "a: b\na: c\n",
        "a: |\n  b\n",
        "a: [b]\n",
        'a: "b\\n"\n',
        "a: b",
        "a: b\n\n",
        "# note\na: b\n",
        "a: *b\n",
        "a: &b c\n",
        "a: !b c\n",
        "a: b:\n",
        "a: b\tc\n",
        "a: b\u2028c\n",
        "a: b\n--- c\n",
        "".join(f"k{number}: v\n" for number in range(10_001)),
    ):
        assert read_simple_yaml(front) is None


class Trail:
    """The texts that stand where keys and values are found, and their styles."""

    def __init__(self, text: str, spans: YamlSpans) -> None:
        self.keys = {path: text[start:end] for path, (start, end, _) in spans.keys.items()}
        self.values = {path: text[start:end] for path, (start, end, _) in spans.values.items()}
        self.styles = {path: style for path, (_, _, style) in spans.values.items()}


def fault_of(text: str) -> FrontMatterError:
    with pytest.raises(FrontMatterError) as caught:
        read_yaml(text)
    return caught.value


def test_every_scalar_stays_the_text_that_was_written() -> None:
    text = "a: no\nb: 1.10\nc: 2026-01-01\nd: 0x1F\ne: 'null'\nf: null\ng:\nh: [1, {i: ~}]\n"
    assert read_yaml(text).fields == {
        "a": "no",
        "b": "1.10",
        "c": "2026-01-01",
        "d": "0x1F",
        "e": "null",
        "f": None,
        "g": None,
        "h": ["1", {"i": None}],
    }


def test_of_a_key_that_stands_twice_the_last_counts_and_both_are_known() -> None:
    tree = read_yaml("a: b\nc: {d: e, d: f}\na: g\n")
    assert tree.fields == {"a": "g", "c": {"d": "f"}}
    assert tree.duplicates == [("d", 15), ("a", 21)]


@pytest.mark.parametrize(
    ("text", "rule", "offset"),
    [
        ("a: &b c\nd: *b\n", "yaml-alias", 3),
        ("a: *b\n", "yaml-alias", 3),
        ("a: [&b]\n", "yaml-alias", 4),
        ("a: !b [c]\n", "yaml-tag", 3),
        ("a: !b c\n", "yaml-syntax", 3),
        ("a: !!map {}\n", "yaml-tag", 3),
        ("- a\n", "frontmatter-mapping", 0),
        ("text\n", "frontmatter-mapping", 0),
        ("a: *b c\n", "yaml-syntax", 6),
        ("? [a]\n: b\n", "yaml-syntax", 2),
        ("a: b\n--- c\n", "yaml-syntax", 5),
        ("a: b: c\n", "yaml-syntax", 4),
        ("é😀: b\nc: d: e\n", "yaml-syntax", 10),
    ],
)
def test_what_is_refused_is_refused_at_its_offset(text: str, rule: str, offset: int) -> None:
    fault = fault_of(text)
    assert (fault.rule, fault.offset) == (rule, offset)


def test_nothing_at_all_is_an_empty_mapping() -> None:
    assert read_yaml("").fields == {}
    assert read_yaml("# only a comment\n").fields == {}


def test_depth_is_limited_before_it_costs_anything() -> None:
    levels = MAX_DEPTH - 1
    assert read_yaml(f"a: {'[' * levels}{']' * levels}\n").fields
    assert read_yaml(f"a: {'{b: ' * levels}c{'}' * levels}\n").fields
    assert fault_of(f"a: {'[' * 100_000}").rule == "yaml-depth"
    assert fault_of(f"a:\n  {'- ' * 10_000}b\n").rule == "yaml-depth"


def test_the_number_of_keys_and_items_is_limited_in_all() -> None:
    assert len(read_yaml("".join(f"k{n}: v\n" for n in range(MAX_KEYS))).fields) == MAX_KEYS
    assert fault_of("".join(f"k{n}: v\n" for n in range(MAX_KEYS + 1))).rule == "yaml-keys"
    assert fault_of(f"a: [{'b,' * MAX_KEYS}]\n").rule == "yaml-keys"


def test_places_cover_quotes_and_brackets_and_leave_out_what_follows() -> None:
    text = "'a': \"b c\"\nd: [e, {f: g}]  # note\nh:\n  - i\n  - j k\n\nl: !!str 1\nm: |\n  n\no: p\n"
    spans = YamlSpans()
    read_yaml(text, spans)
    trail = Trail(text, spans)
    assert trail.keys[("a",)] == "'a'"
    assert trail.keys[("d", 1, "f")] == "f"
    assert trail.values[("a",)] == '"b c"'
    assert trail.values[("d",)] == "[e, {f: g}]"
    assert trail.values[("d", 1)] == "{f: g}"
    assert trail.values[("h",)] == "- i\n  - j k"
    assert trail.values[("h", 1)] == "j k"
    assert trail.values[("m",)] == "|\n  n\n"
    assert [trail.styles[(key,)] for key in ("a", "d", "l", "m", "o")] == ['"', "", "!", "|", ""]


@relaxed
@given(fronts)
def test_the_place_of_a_bare_value_on_one_line_holds_that_value(front: str) -> None:
    spans = YamlSpans()
    try:
        tree = read_yaml(front, spans)
    except FrontMatterError:
        return
    trail = Trail(front, spans)
    for path, source in trail.values.items():
        if len(path) == 1 and isinstance(path[0], str) and not trail.styles[path] and source.isascii():
            value = tree.fields[path[0]]
            if isinstance(value, str) and "\n" not in source:
                assert source == value
