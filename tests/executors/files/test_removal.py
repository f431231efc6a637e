"""Removing what a hostile script left behind."""

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from openskills.executors.files.removal import remove_entry
from tests.executors.hostile_files import deep


def remove(directory: Path, name: str) -> bool:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        return remove_entry(descriptor, name)
    finally:
        os.close(descriptor)


def test_directories_deeper_than_any_path_are_removed(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    with deep(tmp_path / "top", 5_000):
        assert remove(tmp_path, "top")
        assert os.listdir(tmp_path) == []


def test_a_tree_with_unreadable_directories_is_removed(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/d", "e"):
        (tmp_path / "top" / name).mkdir(parents=True)
        (tmp_path / "top" / name / "file").touch()
    for name in ("a/b/c", "a/b", "a/d", "e", ""):
        (tmp_path / "top" / name).chmod(0)
    assert remove(tmp_path, "top")
    assert os.listdir(tmp_path) == []


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to("../outside")
    os.mkfifo(tmp_path / "top" / "fifo")
    (tmp_path / "alone").symlink_to("outside")
    assert remove(tmp_path, "top")
    assert remove(tmp_path, "alone")
    assert os.listdir(tmp_path) == ["outside"]
    assert (tmp_path / "outside" / "kept").exists()


def test_there_is_nothing_to_remove_twice(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert remove(tmp_path, "file")
    assert not remove(tmp_path, "file")


def test_a_script_that_adds_files_meanwhile_cannot_keep_the_removal_from_ending(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "in").mkdir(parents=True)
    stop = threading.Event()

    def add() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with suppress(OSError):
                (top / "in" / str(number)).touch()

    adding = threading.Thread(target=add)
    adding.start()
    try:
        with suppress(OSError):
            remove(tmp_path, "top")
    finally:
        stop.set()
        adding.join()
    remove(tmp_path, "top")
    assert not top.exists()


def test_a_directory_that_is_swapped_for_a_link_does_not_lead_out(tmp_path: Path) -> None:
    outside, place = tmp_path / "outside", tmp_path / "workspace" / "out"
    for directory in (outside, place):
        (directory / "sub").mkdir(parents=True)
        (directory / "sub" / "file").touch()
    link, stop = tmp_path / "workspace" / "link", threading.Event()
    link.symlink_to(outside)

    def swap() -> None:
        kept = tmp_path / "workspace" / "kept"
        while not stop.is_set():
            for old, new in ((place, kept), (link, place), (place, link), (kept, place)):
                with suppress(OSError):
                    os.rename(old, new)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(300):
            with suppress(OSError):
                remove(tmp_path / "workspace", "out")
            with suppress(OSError):
                (place / "sub").mkdir(parents=True)
    finally:
        stop.set()
        swapping.join()
    assert (outside / "sub" / "file").exists()


@pytest.mark.parametrize("name", ["-rf", "--help", "line\nbreak", "\udcff"])
def test_any_name_can_be_removed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert remove(tmp_path, name)
