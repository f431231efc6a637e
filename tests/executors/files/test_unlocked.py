"""Directories that nobody may read."""

import os
from pathlib import Path

import pytest

from openskills.executors.files.unlocked import open_unlocked


@pytest.mark.parametrize("mode", [0o000, 0o300, 0o400, 0o555, 0o700])
def test_an_unreadable_directory_can_be_read_and_changed(tmp_path: Path, mode: int) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").touch()
    (tmp_path / "d").chmod(mode)
    root = os.open(tmp_path, os.O_RDONLY)
    inside = open_unlocked("d", root)
    assert os.listdir(inside) == ["x"]
    os.unlink("x", dir_fd=inside)
    assert (tmp_path / "d").stat().st_mode & 0o700 == 0o700
    os.close(inside)
    os.close(root)


def test_a_link_is_not_unlocked(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir(mode=0o500)
    (tmp_path / "link").symlink_to("target")
    root = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match="link"):
        open_unlocked("link", root)
    os.close(root)
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o500
