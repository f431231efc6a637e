"""Marks tell what was changed before them from what was changed after them."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from openskills.executors.files.marks import Marker


@pytest.fixture
def marker(tmp_path: Path) -> Generator[Marker]:
    marker = Marker(tmp_path / "marker")
    yield marker
    marker.close()
    marker.close()


def stamp(path: Path) -> int:
    return path.lstat().st_ctime_ns


def test_a_file_written_just_before_is_earlier_and_one_just_after_is_not(tmp_path: Path, marker: Marker) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for round_number in range(1_000):
        before.write_text(str(round_number))
        mark = marker.mark()
        after.write_text(str(round_number))
        assert stamp(before) < mark <= stamp(after)


def test_every_kind_of_change_counts(tmp_path: Path, marker: Marker) -> None:
    names = ("written", "chmodded", "renamed", "linked", "backdated")
    for name in names:
        (tmp_path / name).write_text("old")
    mark = marker.mark()
    assert all(stamp(tmp_path / name) < mark for name in names)
    (tmp_path / "written").write_text("new")
    (tmp_path / "chmodded").chmod(0o755)
    (tmp_path / "renamed").rename(tmp_path / "other")
    os.link(tmp_path / "linked", tmp_path / "link")
    (tmp_path / "backdated").write_text("new")
    os.utime(tmp_path / "backdated", (0, 0))
    assert all(stamp(tmp_path / name) >= mark for name in ("written", "chmodded", "other", "linked", "backdated"))


def test_marks_grow(marker: Marker) -> None:
    marks = [marker.mark() for _ in range(100)]
    assert marks == sorted(set(marks))


def test_a_mark_does_not_hold_when_the_clock_is_behind_it(marker: Marker) -> None:
    mark = marker.mark()
    assert marker.holds(mark)
    assert not marker.holds(mark + 3600 * 10**9)


def test_a_link_in_the_place_of_the_marker_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(OSError, match="link"):
        Marker(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()
