"""How much a workspace holds."""

import os
from pathlib import Path

from openskills.executors.files.weighing import weigh
from openskills.executors.spec import Usage
from tests.executors.hostile_files import deep


def weight(directory: Path, *, without: frozenset[str] = frozenset(), at_most: int | None = None) -> Usage:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        return weigh(descriptor, without=without, at_most=at_most)
    finally:
        os.close(descriptor)


def test_bytes_on_disk_and_entries_are_counted(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").write_bytes(b"x" * 1_000_000)
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "big").write_bytes(b"x" * 1_000_000)
    usage = weight(tmp_path, without=frozenset({"skills"}))
    assert usage.files == 2
    assert 1_000_000 <= usage.bytes < 1_100_000


def test_a_hole_costs_nothing_and_a_second_name_costs_nothing(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(10**9)
    (tmp_path / "one").write_bytes(b"x" * 500_000)
    for number in range(10):
        os.link(tmp_path / "one", tmp_path / f"again{number}")
    usage = weight(tmp_path)
    assert usage.files == 2
    assert usage.bytes < 600_000


def test_what_lies_very_deep_is_counted(tmp_path: Path) -> None:
    with deep(tmp_path, 3_000):
        assert weight(tmp_path).files == 3_001


def test_an_unreadable_directory_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").write_bytes(b"x" * 500_000)
    (tmp_path / "d").chmod(0)
    assert weight(tmp_path).bytes > 500_000


def test_counting_ends_when_it_is_clear_that_there_are_too_many(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert weight(tmp_path, at_most=10).files == 11


def test_a_link_to_something_large_is_small(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/usr")
    assert weight(tmp_path) == Usage(0, 1)
