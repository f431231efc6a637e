"""A workspace has its directories, and making them follows no link that a command has left."""

import os
from pathlib import Path

import pytest

from openskills.executors.records.skeleton import make_skeleton
from tests.conftest import needs_root
from tests.executors.unprivileged import as_ordinary_user

PLACES = ("skills", "work", "work/inputs", "runs", "out")


def test_all_directories_are_there_and_closed_to_others(tmp_path: Path) -> None:
    make_skeleton(tmp_path / "tree", None)
    for name in (".", *PLACES):
        status = os.stat(tmp_path / "tree" / name)
        assert (status.st_mode & 0o777, status.st_uid) == (0o700, os.geteuid())


@needs_root("only root can give directories away")
def test_everything_but_the_skills_belongs_to_the_user_of_the_workspace(tmp_path: Path) -> None:
    make_skeleton(tmp_path / "tree", 70_001)
    owners = {name: os.stat(tmp_path / "tree" / name).st_uid for name in (".", *PLACES)}
    assert owners == {".": 70_001, "skills": 0, "work": 70_001, "work/inputs": 70_001, "runs": 70_001, "out": 70_001}
    assert os.stat(tmp_path / "tree" / "skills").st_mode & 0o777 == 0o755


def test_what_is_there_stays_and_what_is_missing_comes_back(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    make_skeleton(tree, None)
    (tree / "out" / "kept").touch()
    (tree / "runs").rmdir()
    make_skeleton(tree, None)
    assert (tree / "out" / "kept").exists()
    assert (tree / "runs").is_dir()


@pytest.mark.parametrize("name", PLACES)
def test_a_link_in_the_place_of_a_directory_is_replaced_and_not_followed(name: str, tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    outside.mkdir()
    make_skeleton(tree, None)
    if name == "work":
        (tree / "work" / "inputs").rmdir()
    (tree / name).rmdir()
    (tree / name).symlink_to(outside)
    make_skeleton(tree, None)
    assert list(outside.iterdir()) == []
    assert (tree / name).is_dir()
    assert not (tree / name).is_symlink()


def test_directories_that_a_command_has_closed_are_opened_again(tmp_path: Path) -> None:
    def close_and_make(place: Path) -> None:
        make_skeleton(place / "tree", None)
        os.chmod(place / "tree" / "work", 0)
        os.chmod(place / "tree", 0o500)
        make_skeleton(place / "tree", None)
        assert (place / "tree" / "work" / "inputs").is_dir()

    as_ordinary_user(tmp_path, close_and_make)
