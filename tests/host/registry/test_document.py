"""Values that remember how they were written."""

from openskills.host.registry.document import Node, Places, Scalar, plain, twice


def test_what_a_value_means_is_had_without_how_it_was_written() -> None:
    node: Node = {"a": [Scalar("1.0", 1.0), Scalar("no", "no")], "b": Scalar("", None)}
    assert plain(node) == {"a": [1.0, "no"], "b": None}


def test_places_are_lines_and_columns_of_the_text() -> None:
    places = Places()
    places.value(("a",), 3, 4, "")
    places.value(("b",), 8, 9, "'")
    assert places.lines("a: 1\nb: '2'") == {("a",): (1, 4), ("b",): (2, 4)}


def test_a_long_key_that_stands_twice_is_cut_in_the_message() -> None:
    assert len(twice("k" * 1000).message) < 120
