"""A file on its way."""

import os
import resource
from collections.abc import Generator
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument, LimitExceeded
from openskills.executors.files.arrival import Arrival


@pytest.fixture
def parent(tmp_path: Path) -> Generator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path: Path, parent: int) -> None:
    arrival = Arrival(parent, "out/x", executable=False, owner=None)
    arrival.write(b"a")
    assert not (tmp_path / "x").exists()
    arrival.write(b"b")
    info = arrival.commit()
    arrival.close()
    assert (tmp_path / "x").read_bytes() == b"ab"
    assert (info.path, info.size, info.stamp[0]) == ("out/x", 2, (tmp_path / "x").stat().st_ctime_ns)


def test_what_is_not_committed_is_gone(tmp_path: Path, parent: int) -> None:
    arrival = Arrival(parent, "out/x", executable=False, owner=None)
    arrival.write(b"a")
    arrival.close()
    assert os.listdir(tmp_path) == []


def test_a_script_that_removes_it_on_its_way_gets_an_error(tmp_path: Path, parent: int) -> None:
    arrival = Arrival(parent, "out/x", executable=False, owner=None)
    (tmp_path / os.listdir(tmp_path)[0]).unlink()
    with pytest.raises(InvalidArgument, match="does not exist"):
        arrival.commit()
    arrival.close()


def test_a_directory_is_not_replaced(tmp_path: Path, parent: int) -> None:
    (tmp_path / "x").mkdir()
    arrival = Arrival(parent, "out/x", executable=False, owner=None)
    with pytest.raises(InvalidArgument, match="is a directory"):
        arrival.commit()
    arrival.close()
    assert os.listdir(tmp_path) == ["x"]


def test_a_disk_that_is_full_on_the_way_is_said(tmp_path: Path, parent: int) -> None:
    arrival = Arrival(parent, "out/x", executable=False, owner=None)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        with pytest.raises(LimitExceeded, match="no room"):
            arrival.write(b"x" * 2_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        arrival.close()
    assert os.listdir(tmp_path) == []
