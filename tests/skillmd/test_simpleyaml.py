from hypothesis import example, given

from openskills.skillmd.simpleyaml import read_simple
from openskills.skillmd.yamltree import read_tree
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
    simple = read_simple(front)
    if simple is not None:
        tree = read_tree(front)
        assert simple == tree.fields
        assert not tree.duplicates


def test_the_common_shape_is_read_without_the_yaml_parser() -> None:
    assert read_simple(FRONT) == {
        "name": "pdf-tools",
        "description": "Merge PDF files, see http://example.org/#top. Use when asked.",
        "empty": None,
        "metadata": {"author": "Jane Doe", "version": "1.0", "nothing": None},
        "license": None,
    }
    assert read_simple(FRONT.replace("\n", "\r\n")) == read_simple(FRONT)


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
        assert read_simple(front) is None
