from openskills.skillmd.fences import cut
from openskills.skillmd.places import Places, find_places
from openskills.skillmd.recover import recover
from openskills.skillmd.value import Place

TEXT = "\n---\nname: x\nmetadata:\n  - {a: 'b'}\n---\n"


def test_places_count_lines_columns_and_offsets_of_the_whole_file() -> None:
    places = find_places(cut(TEXT), None)
    assert places.key_at(("name",)) == Place(3, 1, 5, 9)
    assert places.value_at(("metadata", 0)) == Place(5, 5, 27, 35)
    assert places.value_at(("metadata", 0, "a")) == Place(5, 9, 31, 34, "'")
    assert places.value_at(("metadata",)) == Place(5, 3, 25, 35)


def test_what_is_not_there_has_no_place() -> None:
    places = find_places(cut(TEXT), None)
    assert places.key_at(("other",)) is None
    assert places.value_at(("metadata", 1)) is None
    assert Places(cut("text")).key_at(("name",)) is None


def test_of_a_key_that_stands_twice_the_last_one_has_the_place() -> None:
    place = find_places(cut("---\na: b\na: c\n---\n"), None).key_at(("a",))
    assert place
    assert place.line == 3


def test_places_after_a_recovery_are_exact_in_what_was_sound() -> None:
    halves = cut("---\na: b: c\nd:\n  e: [f]\n---\n")
    assert halves.front
    places = find_places(halves, recover(halves.front))
    assert places.value_at(("a",)) == Place(2, 4, 7, 11)
    assert places.key_at(("d", "e")) == Place(4, 3, 17, 18)
    assert places.value_at(("d", "e", 0)) == Place(4, 7, 21, 22)
