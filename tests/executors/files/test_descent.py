"""Going down and up by descriptors."""

import errno
import os
from pathlib import Path

import pytest

from openskills.executors.files.descent import Descent
from tests.executors.hostile_files import deep


def test_a_depth_beyond_every_path_needs_few_descriptors(tmp_path: Path) -> None:
    root = os.open(tmp_path, os.O_RDONLY)
    before = len(os.listdir("/proc/self/fd"))
    with deep(tmp_path, 2_000), Descent(root) as descent:
        for _ in range(2_000):
            descent.enter("d")
        assert os.listdir(descent.descriptor) == ["file"]
        assert len(os.listdir("/proc/self/fd")) < before + 50
        for _ in range(2_000):
            descent.leave()
        assert descent.depth == 0
        assert os.path.samestat(os.fstat(descent.descriptor), os.stat(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(root)


def test_a_link_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    root = os.open(tmp_path, os.O_RDONLY)
    with Descent(root) as descent:
        with pytest.raises(OSError, match="link"):
            descent.enter("link")
        assert descent.depth == 0
    os.close(root)


def test_going_up_from_a_directory_that_was_moved_is_refused(tmp_path: Path) -> None:
    root = os.open(tmp_path, os.O_RDONLY)
    with deep(tmp_path, 40), Descent(root) as descent:
        for _ in range(39):
            descent.enter("d")
        os.rename("d", tmp_path / "moved", src_dir_fd=descent.descriptor)
        inside = os.open(tmp_path / "moved", os.O_RDONLY)
        descent.follow(inside)
        with pytest.raises(OSError, match="moved") as refused:
            descent.leave()
        assert refused.value.errno == errno.ESTALE
    os.close(root)
