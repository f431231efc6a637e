"""A whole directory goes, whatever is in it, and nothing else does."""

import os
from pathlib import Path

import pytest

from openskills.executors.records.delete import delete_tree
from tests.executors.unprivileged import as_ordinary_user, open_descriptors

DEPTH = 5000


def deep(path: Path, depth: int) -> None:
    """Directories in each other, deeper than any path can say, with a file at the bottom."""
    path.mkdir()
    place = os.open(path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=place))
    os.close(place)


def test_a_tree_goes_with_all_kinds_of_things_in_it(tmp_path: Path) -> None:
    doomed = tmp_path / "doomed"
    (doomed / "a" / "b").mkdir(parents=True)
    (doomed / "a" / "b" / "file").write_text("x")
    (doomed / "a" / "-rf\n\x1b").write_text("x")
    os.mkfifo(doomed / "pipe")
    os.mkdir(os.fsencode(doomed) + b"/\xff\xfe")
    assert delete_tree(doomed) is True
    assert not doomed.exists()
    assert delete_tree(doomed) is False


def test_links_go_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    doomed = tmp_path / "doomed"
    (doomed / "in").mkdir(parents=True)
    (doomed / "in" / "directory").symlink_to(kept)
    (doomed / "in" / "up").symlink_to("..")
    (doomed / "file").hardlink_to(kept / "file")
    delete_tree(doomed)
    assert not doomed.exists()
    assert (kept / "file").read_text() == "x"


def test_a_link_or_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "file").write_text("x")
    for name in ("link", "file"):
        with pytest.raises(NotADirectoryError):
            delete_tree(tmp_path / name)
    assert (tmp_path / "kept").is_dir()


def test_a_tree_of_five_thousand_levels_goes(tmp_path: Path) -> None:
    deep(tmp_path / "doomed", DEPTH)
    delete_tree(tmp_path / "doomed")
    assert os.listdir(tmp_path) == []


def test_directories_that_are_closed_to_their_owner_go(tmp_path: Path) -> None:
    def build_and_delete(place: Path) -> None:
        doomed = place / "doomed"
        (doomed / "a" / "b" / "c").mkdir(parents=True)
        (doomed / "a" / "b" / "c" / "file").write_text("x")
        (doomed / "a" / "other").mkdir()
        for name in ("a/b/c", "a/b", "a/other", "a", "."):
            os.chmod(doomed / name, 0)
        delete_tree(doomed)

    as_ordinary_user(tmp_path, build_and_delete)
    assert os.listdir(tmp_path) == []


def test_what_was_half_removed_can_be_removed_again(tmp_path: Path) -> None:
    doomed = tmp_path / "doomed"
    (doomed / ".0123-0" / "x").mkdir(parents=True)
    (doomed / "work").mkdir()
    assert delete_tree(doomed) is True
    assert not doomed.exists()


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = open_descriptors()
    deep(tmp_path / "doomed", 50)
    delete_tree(tmp_path / "doomed")
    assert open_descriptors() == before
