"""Files that appear whole or not at all."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openskills.errors import SkillError
from openskills.skillkit.arriving import arriving, make_directory, not_writable


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    """An open descriptor of an empty directory."""
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_a_file_has_no_name_until_it_is_whole(directory: int, tmp_path: Path) -> None:
    with arriving(directory, "x.txt") as file:
        file.write(b"half")
        file.flush()
        assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == []
    assert os.listdir(tmp_path) == ["x.txt"]
    assert (tmp_path / "x.txt").read_bytes() == b"half"


def test_what_fails_leaves_the_old_file_and_nothing_else(directory: int, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("old")
    with pytest.raises(ValueError, match="closed"), arriving(directory, "x.txt") as file:
        file.close()
    assert os.listdir(tmp_path) == ["x.txt"]
    assert (tmp_path / "x.txt").read_text() == "old"


def test_a_place_that_is_not_to_be_written_is_named_with_what_to_do() -> None:
    # Nobody can make files there, not even root.
    descriptor = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(SkillError, match=r"'x.txt' cannot be written"), arriving(descriptor, "x.txt"):
            pass
    finally:
        os.close(descriptor)
    said = not_writable("out", OSError(errno.EROFS, "Read-only file system")).message
    assert said.startswith("'out' cannot be written: Read-only file system; its manifest has to say `writable: true`")


@pytest.mark.parametrize(("mode", "file", "folder"), [(0o755, 0o644, 0o755), (0o700, 0o600, 0o700)])
def test_who_sees_the_directory_sees_what_is_made_in_it(
    directory: int, tmp_path: Path, mode: int, file: int, folder: int
) -> None:
    tmp_path.chmod(mode)
    before = os.umask(0o077)
    try:
        with arriving(directory, "x.txt"):
            pass
        make_directory(directory, "made")
        make_directory(directory, "made")
    finally:
        os.umask(before)
    assert (tmp_path / "x.txt").stat().st_mode & 0o777 == file
    assert (tmp_path / "made").stat().st_mode & 0o777 == folder


def test_a_process_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    code = """
import os, signal
from openskills.skillkit.arriving import arriving
with arriving(os.open(".", os.O_RDONLY), "x.txt") as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == []


def test_a_link_is_replaced_and_not_followed(directory: int, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    (tmp_path / "x.txt").symlink_to("precious")
    with arriving(directory, "x.txt") as file:
        file.write(b"new")
    assert (tmp_path / "precious").read_text() == "keep"
    assert (tmp_path / "x.txt").read_text() == "new"
    assert not (tmp_path / "x.txt").is_symlink()
