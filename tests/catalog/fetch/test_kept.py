"""What was downloaded is found again, complete."""

from pathlib import Path

from openskills.catalog.fetch.kept import Kept, Shelf

URL = "https://example.org/a.zip"
KEPT = Kept("a" * 64, 3, URL, '"1"', "yesterday", "application/zip")


def keep(shelf: Shelf, kept: Kept, data: bytes) -> None:
    with shelf.arriving(URL) as path:
        path.write_bytes(data)
        shelf.keep(URL, path, kept)


def test_an_answer_is_found_again_under_every_spelling_of_its_address(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    keep(shelf, KEPT, b"one")
    assert Shelf(tmp_path).find("https://me:pw@EXAMPLE.org:443/a.zip#x") == KEPT
    assert shelf.body(URL, KEPT).read_bytes() == b"one"
    assert shelf.find("https://example.org/b.zip") is None


def test_what_never_became_complete_is_gone(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    with shelf.arriving(URL) as path:
        path.write_bytes(b"ha")
    assert shelf.find(URL) is None
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_body_of_another_length_than_recorded_is_not_trusted(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    keep(shelf, KEPT, b"four")
    assert shelf.find(URL) is None


def test_the_answer_before_the_last_stays_for_those_who_still_read_it(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    generations = [Kept(letter * 64, 1, URL) for letter in "abc"]
    for kept in generations:
        keep(shelf, kept, b"x")
    assert [shelf.body(URL, kept).exists() for kept in generations] == [False, True, True]
