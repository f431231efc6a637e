"""What was downloaded is found again, complete."""

import os
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
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} <= {".lock"}


def test_a_body_of_another_length_than_recorded_is_not_trusted(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    keep(shelf, KEPT, b"four")
    assert shelf.find(URL) is None


def test_what_was_superseded_stays_for_an_hour_after_its_last_use(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    generations = [Kept(letter * 64, 1, URL) for letter in "abcd"]
    for kept in generations[:3]:
        keep(shelf, kept, b"x")
    for kept in generations[:3]:
        os.utime(shelf.body(URL, kept), (0, 0))
    # Another process is told about the third and is about to read it.
    assert Shelf(tmp_path).find(URL) == generations[2]
    keep(shelf, generations[3], b"x")
    assert [shelf.body(URL, kept).exists() for kept in generations] == [False, False, True, True]
