"""Two names change places."""

import os
from pathlib import Path

import pytest

from openskills.executors.staging.exchange import exchange


def test_two_directories_change_places(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    descriptor = os.open(tmp_path, os.O_RDONLY)
    exchange(descriptor, "a", "b")
    os.close(descriptor)
    assert (tmp_path / "a" / "b").exists()
    assert (tmp_path / "b" / "a").exists()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_missing_name_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(FileNotFoundError):
        exchange(descriptor, "a", "b")
    os.close(descriptor)
    assert os.listdir(tmp_path) == ["a"]
