"""Directories that are opened and made beneath a workspace."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from openskills.errors import ForbiddenPath
from openskills.executors.files.directories import Directories


@pytest.fixture
def directories(tmp_path: Path) -> Generator[Directories]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield Directories(descriptor, None)
    os.close(descriptor)


def same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    finally:
        os.close(descriptor)


def test_what_is_missing_is_made_with_its_parents(tmp_path: Path, directories: Directories) -> None:
    assert same(directories.made("out/a/b"), tmp_path / "out/a/b")
    assert same(directories.open("out/a/b"), tmp_path / "out/a/b")
    assert same(directories.made("out"), tmp_path / "out")
    with pytest.raises(FileNotFoundError):
        directories.open("out/none")


def test_a_link_within_the_same_directory_is_followed_unless_none_is_to_be(
    tmp_path: Path, directories: Directories
) -> None:
    (tmp_path / "out/a").mkdir(parents=True)
    (tmp_path / "out/link").symlink_to("a")
    assert same(directories.made("out/link/b"), tmp_path / "out/a/b")
    with pytest.raises(ForbiddenPath):
        directories.made("out/link/c", links=False)


@pytest.mark.parametrize("target", ["../work", "/etc", "../../x", "none"])
def test_a_link_to_another_directory_is_not_followed(tmp_path: Path, directories: Directories, target: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "out/link").symlink_to(target)
    with pytest.raises(ForbiddenPath):
        directories.made("out/link/b")
    (tmp_path / "top").symlink_to("work")
    with pytest.raises(ForbiddenPath):
        directories.made("top/b")
    assert os.listdir(tmp_path / "work") == []


def test_no_descriptor_stays_open(directories: Directories) -> None:
    before = len(os.listdir("/proc/self/fd"))
    os.close(directories.made("out/a/b/c"))
    assert len(os.listdir("/proc/self/fd")) == before
